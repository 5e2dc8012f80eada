"""``GET /docs``: the API's description as a page that needs nothing from anywhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from html import escape
from typing import Any

from fastapi import APIRouter
from starlette.responses import HTMLResponse

_HEAD = """<!doctype html><html lang="en"><meta charset="utf-8"><title>voxloom API</title>
<style>body{font:16px/1.5 system-ui;max-width:60em;margin:2em auto;padding:0 1em}
td{vertical-align:top;padding:.3em .8em .3em 0;border-top:1px solid #ccc}</style>
<h1>voxloom API</h1><p>Also as <a href="openapi.json">OpenAPI</a>.</p>"""


def docs_routes(describe: Callable[[], dict[str, Any]]) -> APIRouter:
    """The route; ``describe`` gives the OpenAPI document."""
    router = APIRouter()

    @router.get("/docs", include_in_schema=False, response_class=HTMLResponse)
    async def docs() -> str:
        return render(describe())

    return router


def render(document: dict[str, Any]) -> str:
    """The page for an OpenAPI document."""
    return _HEAD + "".join(_operations(document)) + "</html>"


def _operations(document: dict[str, Any]) -> Iterator[str]:
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            yield f"<h2><code>{method.upper()} {escape(path)}</code></h2>"
            yield f"<p>{escape(operation.get('summary', ''))}</p>"
            if parameters := operation.get("parameters"):
                yield from _fields({"properties": {field["name"]: field for field in parameters}})
            content = operation.get("requestBody", {}).get("content", {})
            for body in content.values():
                yield from _fields(_resolve(document, body["schema"]))
            yield f"<p>Answers: {escape(', '.join(operation['responses']))}</p>"


def _fields(schema: dict[str, Any]) -> Iterator[str]:
    yield "<table>"
    for name, field in schema.get("properties", {}).items():
        needed = " (required)" if name in schema.get("required", ()) else ""
        yield f"<tr><td><code>{escape(name)}</code>{needed}</td>"
        yield f"<td>{escape(field.get('description', ''))}</td></tr>"
    yield "</table>"


def _resolve(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    name = schema.get("$ref", "").rpartition("/")[2]
    found: dict[str, Any] = document["components"]["schemas"].get(name, schema)
    return found
