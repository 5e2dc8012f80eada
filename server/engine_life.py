"""The engines' lives inside a server: each started once, shut down once, whoever asks first."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from server.engine_port import EnginePort

# A first request waits this long for its engine: weights may have to be read from a slow disk.
_FIRST_USE_TIMEOUT_S = 120.0


class ServedEngine:
    """One engine of the server. A lazy one is started by the first request for it."""

    def __init__(self, engine: EnginePort, *, is_lazy: bool = False) -> None:
        self.engine = engine
        self.is_lazy = is_lazy
        self.is_started = False

    @property
    def name(self) -> str:
        return self.engine.pipeline.name

    def start(self) -> None:
        """Start it, unless it has been started."""
        if not self.is_started:
            self.is_started = True
            self.engine.start()

    async def ready(self) -> EnginePort:
        """The engine, started; a lazy one is waited for. Raises ``UnavailableError``."""
        self.start()
        if self.is_lazy and not self.engine.is_ready:
            await self.engine.wait_ready(_FIRST_USE_TIMEOUT_S)
        return self.engine

    def readiness(self) -> dict[str, Any]:
        """The engine's own account, and whether it waits for its first request."""
        return {**self.engine.readiness(), "starts_on_use": self.is_lazy and not self.is_started}


class EngineLife:
    """All engines of a server, first the one that speaks.

    Both the application's lifespan and the server's signal handling end them.
    """

    def __init__(self, speech: EnginePort, *others: ServedEngine) -> None:
        self.engine = speech
        self._served = (ServedEngine(speech), *others)
        self._ending: asyncio.Task[None] | None = None

    def __iter__(self) -> Iterator[ServedEngine]:
        return iter(self._served)

    def start(self) -> None:
        """Start those that are not lazy."""
        for served in self._served:
            if not served.is_lazy:
                served.start()

    async def wait_ready(self) -> None:
        """Wait for those that are not lazy. Raises ``UnavailableError``."""
        for served in self._served:
            if not served.is_lazy:
                await served.engine.wait_ready()

    async def end(self) -> None:
        """Drain and stop all that run; a second caller waits for the first one's end of it."""
        if self._ending is None:
            self._ending = asyncio.create_task(self._end())
        await asyncio.shield(self._ending)

    async def _end(self) -> None:
        running = [served.engine for served in self._served if served.is_started]
        await asyncio.gather(*(engine.shutdown() for engine in running))
