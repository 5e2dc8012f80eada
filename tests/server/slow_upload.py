"""Clients that take their time over a request's body, or stop in the middle of it."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.server.asgi_client import Exchange


class Upload:
    """A client that has sent the beginning of its body and waits for ``goes_on``."""

    def __init__(self) -> None:
        self.has_begun, self.goes_on = asyncio.Event(), asyncio.Event()
        self.num_received = 0

    @staticmethod
    def trickle(flight: Exchange) -> None:
        """A byte a tick of the client's clock, which ticks a hundred times a second."""
        whole = flight.receive
        parts: list[bytes] = []

        async def byte() -> Any:
            if not parts:
                parts.extend(bytes([value]) for value in (await whole())["body"])
            await asyncio.sleep(0.01)
            return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

        flight.receive = byte  # type: ignore[method-assign]

    def hold(self, flight: Exchange) -> None:
        receive = flight.receive

        async def held() -> Any:
            self.num_received += 1
            if self.num_received > 1:
                self.has_begun.set()
                await self.goes_on.wait()
            return await receive()

        flight.receive = held  # type: ignore[method-assign]
