"""``GET /``: a page to try the server with. Nothing on it comes from anywhere else.

``GET /page/talk`` is the page's own question: whether the server holds conversations, in which
voices. No client should need it, and the API's description leaves it out.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from server.catalog import describe_voice
from server.engine_port import EnginePort

_FOLDER = Path(__file__).parents[1] / "page"
_INDEX = "index.html"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
# Scripts and styles from this server alone, none of them inline; fetches and sockets too.
_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    # The files have no versions in their names: a browser asks each time, and mostly gets a 304.
    "cache-control": "no-cache",
}


@dataclass(frozen=True, slots=True)
class PageFile:
    """A file of the page, in memory; ``tag`` is its ETag."""

    body: bytes
    content_type: str
    tag: str

    def answer(self, request: Request) -> Response:
        """The file, or a 304 if the browser has it."""
        headers = _HEADERS | {"etag": self.tag}
        known = request.headers.get("if-none-match", "")
        if self.tag in (tag.strip().removeprefix("W/") for tag in known.split(",")):
            return Response(status_code=304, headers=headers)
        return Response(self.body, headers=headers | {"content-type": self.content_type})


def page_routes(talker: EnginePort | None) -> APIRouter:
    """``/``, and ``/page/...`` for each file that it needs. ``talker`` holds conversations."""
    router = APIRouter()

    @router.get("/page/talk", include_in_schema=False)
    async def describe_talk() -> JSONResponse:
        voices = () if talker is None else talker.voices
        answer = {"talks": talker is not None, "voices": [describe_voice(v) for v in voices]}
        return JSONResponse(answer, headers={"cache-control": "no-store"})

    for name, file in _load().items():
        path = "/" if name == _INDEX else f"/page/{name}"
        router.add_api_route(path, file.answer, include_in_schema=False, name=f"page {name}")
    return router


def _load() -> dict[str, PageFile]:
    """The files by name. A few dozen kilobytes: they are read once."""
    paths = sorted(path for path in _FOLDER.iterdir() if path.suffix in _TYPES)
    return {path.name: _read(path) for path in paths}


def _read(path: Path) -> PageFile:
    body = path.read_bytes()
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    return PageFile(body, _TYPES[path.suffix], tag)
