"""The ASGI messages of one streamed body."""

from __future__ import annotations

import asyncio
import time

from starlette.types import Send

from server.metrics import ListenerMeter


class BodySender:
    """Sends a body and knows the time that the client took to read it.

    Raises ``TimeoutError`` when the client reads nothing for ``timeout_s``; ``is_stalled`` then
    says that nothing more can be sent.
    """

    def __init__(self, send: Send, meter: ListenerMeter, timeout_s: float) -> None:
        self._send = send
        self._meter = meter
        self._timeout_s = timeout_s
        self.is_started = False
        self.is_stalled = False
        self._has_audio = False

    async def start(self, headers: dict[str, str]) -> None:
        """Status 200. From now on a failure can only cut the body short."""
        raw = [(name.encode("ascii"), value.encode("ascii")) for name, value in headers.items()]
        self.is_started = True
        await self._send({"type": "http.response.start", "status": 200, "headers": raw})

    async def write_audio(self, data: bytes | memoryview) -> None:
        """Send a part of the audio; the first one ends the time to first audio."""
        await self.write(data)
        if not self._has_audio:
            self._has_audio = True
            self._meter.first_byte_sent()

    async def write(self, data: bytes | memoryview, *, more: bool = True) -> None:
        """Send a part of the body."""
        before = time.monotonic()
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._send({"type": "http.response.body", "body": data, "more_body": more})
        except TimeoutError:
            self.is_stalled = True
            raise
        self._meter.add_blocked(time.monotonic() - before)

    async def finish(self) -> None:
        """The body is whole."""
        await self.write(b"", more=False)
