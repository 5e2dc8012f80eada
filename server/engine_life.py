"""The engine's life inside a server: started once, shut down once, whoever asks first."""

from __future__ import annotations

import asyncio

from server.engine_port import EnginePort


class EngineLife:
    """Both the application's lifespan and the server's signal handling end the engine."""

    def __init__(self, engine: EnginePort) -> None:
        self.engine = engine
        self._ending: asyncio.Task[None] | None = None

    def start(self) -> None:
        self.engine.start()

    async def end(self) -> None:
        """Drain and stop the engine; a second caller waits for the first one's end of it."""
        if self._ending is None:
            self._ending = asyncio.create_task(self.engine.shutdown())
        await asyncio.shield(self._ending)
