"""The probes, and a page for people who open the server in a browser."""

from __future__ import annotations

from html import escape
from typing import Any

from fastapi import APIRouter
from starlette.responses import HTMLResponse, Response

from server.engine_port import EnginePort
from server.schemas.listings import Health, Readiness

_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>voxloom</title>
<h1>voxloom speaks</h1>
<p>Model: {model}. The API is OpenAI's:</p>
<pre>curl {base}/v1/audio/speech -H 'Content-Type: application/json' \\
     -d '{{"input": "Hello there."}}' -o hello.mp3</pre>
<p><a href="/docs">API</a> · <a href="/v1/audio/voices">voices</a> · <a href="/ready">state</a></p>
</html>
"""


def health_routes(engine: EnginePort, base_url: str) -> APIRouter:
    """``/health`` (the process lives), ``/ready`` (it can serve) and ``/``."""
    router = APIRouter()
    page = _PAGE.format(model=escape(engine.pipeline.name), base=escape(base_url))

    # An engine that has given up does not come back: whoever watches the process may restart it.
    @router.get(
        "/health", summary="Liveness", response_model=Health, responses={503: {"model": Health}}
    )
    async def health(response: Response) -> dict[str, str]:
        is_alive = engine.readiness()["failure"] is None
        response.status_code = 200 if is_alive else 503
        return {"status": "ok" if is_alive else "failed"}

    @router.get(
        "/ready",
        summary="Readiness",
        response_model=Readiness,
        responses={503: {"model": Readiness}},
    )
    async def ready(response: Response) -> dict[str, Any]:
        state = engine.readiness()
        response.status_code = 200 if state["ready"] else 503
        return {**state, "status": "ready" if state["ready"] else "not_ready"}

    @router.get("/", include_in_schema=False, response_class=HTMLResponse)
    async def index() -> str:
        return page

    return router
