"""Drives an ASGI app's WebSocket by hand: every message it sent, and a client that may not read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from starlette.types import ASGIApp, Message

TIMEOUT_S = 60.0


class AsgiSocket:
    """The client's end. While ``reading`` is not set, the app's sends wait."""

    def __init__(self) -> None:
        self.reading = asyncio.Event()
        self.reading.set()
        self.num_sends_waiting = 0
        self._to_app: asyncio.Queue[Message] = asyncio.Queue()
        self._from_app: asyncio.Queue[Message] = asyncio.Queue()
        self._to_app.put_nowait({"type": "websocket.connect"})

    def say(self, kind: str, **fields: Any) -> None:
        self.send_text(json.dumps({"type": kind} | fields))

    def send_text(self, text: str) -> None:
        self._to_app.put_nowait({"type": "websocket.receive", "text": text})

    def send_bytes(self, data: bytes) -> None:
        self._to_app.put_nowait({"type": "websocket.receive", "bytes": data})

    def leave(self) -> None:
        self._to_app.put_nowait({"type": "websocket.disconnect", "code": 1001})

    async def next(self) -> dict[str, Any] | bytes | int:
        """The next event, audio, or code of the close."""
        message = await self._from_app.get()
        if message["type"] == "websocket.close":
            return int(message["code"])
        if message.get("bytes") is not None:
            return bytes(message["bytes"])
        event: dict[str, Any] = json.loads(message["text"])
        return event

    async def until(self, kind: str) -> list[Any]:
        """Everything up to an event of that type."""
        found: list[Any] = []
        while not (found and isinstance(found[-1], dict) and found[-1]["type"] == kind):
            found.append(await self.next())
            assert not isinstance(found[-1], int), f"closed before {kind}: {found}"
        return found

    async def receive(self) -> Message:
        return await self._to_app.get()

    async def send(self, message: Message) -> None:
        self.num_sends_waiting += 1
        await self.reading.wait()
        self.num_sends_waiting -= 1
        if message["type"] != "websocket.accept":
            self._from_app.put_nowait(message)


@asynccontextmanager
async def connected(
    app: ASGIApp,
    path: str = "/v1/audio/speech/stream",
    headers: Sequence[tuple[bytes, bytes]] = (),
) -> AsyncIterator[AsgiSocket]:
    """A socket of the app; at the end the client leaves, and the app must be done with it."""
    socket = AsgiSocket()
    path, _, query = path.partition("?")
    scope = {
        "type": "websocket",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "scheme": "ws",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": list(headers),
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8000),
        "subprotocols": [],
        "state": {},
        "extensions": {"websocket.http.response": {}},
    }
    async with asyncio.timeout(TIMEOUT_S):
        served = asyncio.ensure_future(_serve(app, scope, socket))
        try:
            yield socket
        finally:
            socket.leave()
            socket.reading.set()
            await served


async def _serve(app: ASGIApp, scope: dict[str, Any], socket: AsgiSocket) -> None:
    await app(scope, socket.receive, socket.send)
