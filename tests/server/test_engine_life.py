"""The engine ends once."""

from __future__ import annotations

import asyncio

from server.engine_life import EngineLife
from tests.server.fake_engine import FakeEngine


class CountingEngine(FakeEngine):
    num_shutdowns = 0

    async def shutdown(self, drain_timeout_s: float | None = None) -> None:
        self.num_shutdowns += 1
        await asyncio.sleep(0)
        await super().shutdown(drain_timeout_s)


def test_two_who_end_it_end_it_once_and_both_wait() -> None:
    engine = CountingEngine()

    async def run() -> list[bool]:
        life = EngineLife(engine)
        life.start()

        async def end() -> bool:
            await life.end()
            return engine.is_ready

        return list(await asyncio.gather(end(), end()))

    assert asyncio.run(run()) == [False, False]
    assert engine.num_shutdowns == 1
