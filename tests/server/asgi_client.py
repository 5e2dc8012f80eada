"""Drives an ASGI app by hand: one request, every message that it sent, and a client who may leave.

Nothing is hidden by an HTTP library: paths, headers and bodies go in as they are.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from starlette.types import ASGIApp, Message

_TIMEOUT_S = 60.0


@dataclass
class Answer:
    """What came back. ``is_whole`` is False when the body was cut short."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    chunks: list[bytes] = field(default_factory=list)
    is_whole: bool = False

    @property
    def body(self) -> bytes:
        return b"".join(self.chunks)

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        """The inside of the error envelope, whose keys are always the same four."""
        error: dict[str, Any] = self.json()["error"]
        assert set(error) == {"message", "type", "param", "code"}
        return error


class Exchange:
    """One request in flight; ``leave`` is the client closing the connection."""

    def __init__(self, body: bytes, chunk_size: int, on_chunk: Callable[[Exchange], None]) -> None:
        self.answer = Answer()
        self._parts = [body[i : i + chunk_size] for i in range(0, len(body), chunk_size)] or [b""]
        self._gone = asyncio.Event()
        self._on_chunk = on_chunk

    def leave(self) -> None:
        self._gone.set()

    async def receive(self) -> Message:
        if self._parts:
            part = self._parts.pop(0)
            return {"type": "http.request", "body": part, "more_body": bool(self._parts)}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        answer = self.answer
        if message["type"] == "http.response.start":
            assert answer.status == 0, "a response started twice"
            answer.status = message["status"]
            answer.headers = {k.decode(): v.decode() for k, v in message["headers"]}
            return
        assert message["type"] == "http.response.body"
        answer.chunks.append(bytes(message["body"]))
        answer.is_whole = not message.get("more_body", False)
        self._on_chunk(self)
        if answer.is_whole:
            self._gone.set()


async def exchange(
    app: ASGIApp,
    method: str,
    path: str,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
    *,
    on_chunk: Callable[[Exchange], None] = lambda _: None,
    on_start: Callable[[Exchange], None] = lambda _: None,
    chunk_size: int = 65536,
    timeout_s: float = _TIMEOUT_S,
) -> Answer:
    """One request to ``app`` and its answer."""
    flight = Exchange(body, chunk_size, on_chunk)
    raw_headers = [(k.lower().encode(), v.encode("latin-1")) for k, v in (headers or {}).items()]
    target, _, query = path.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(target),
        "raw_path": target.encode("ascii"),
        "query_string": query.encode("ascii"),
        "root_path": "",
        "headers": raw_headers,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8000),
        "state": {},
    }
    async with asyncio.timeout(timeout_s):
        on_start(flight)
        await app(scope, flight.receive, flight.send)
    return flight.answer


def request(app: ASGIApp, method: str, path: str, **arguments: Any) -> Answer:
    """``exchange`` in an event loop of its own."""
    return asyncio.run(exchange(app, method, path, **arguments))


def post_json(app: ASGIApp, path: str, data: object, **arguments: Any) -> Answer:
    """POST ``data`` as JSON."""
    headers = {"content-type": "application/json"} | arguments.pop("headers", {})
    return request(app, "POST", path, body=json.dumps(data).encode(), headers=headers, **arguments)
