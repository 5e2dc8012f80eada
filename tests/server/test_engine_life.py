"""The engine ends once."""

from __future__ import annotations

import asyncio

import pytest

from engine.errors import UnavailableError
from server.engine_life import EngineLife, ServedEngine
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


def test_a_lazy_engine_starts_at_its_first_use_and_ends_only_if_it_did() -> None:
    used, unused = CountingEngine(), CountingEngine()

    async def run() -> None:
        served = ServedEngine(used, is_lazy=True)
        life = EngineLife(FakeEngine(), served, ServedEngine(unused, is_lazy=True))
        life.start()
        await life.wait_ready()
        assert not used.is_ready
        assert await served.ready() is used
        assert used.is_ready
        await life.end()

    asyncio.run(run())

    assert (used.num_shutdowns, unused.num_shutdowns) == (1, 0)


def test_a_lazy_engine_that_cannot_start_fails_who_asked_for_it() -> None:
    class Broken(FakeEngine):
        async def wait_ready(self, timeout_s: float | None = None) -> None:
            raise UnavailableError("no weights")

        def start(self) -> None:
            pass

    async def run() -> None:
        life = EngineLife(FakeEngine(), ServedEngine(Broken(), is_lazy=True))
        life.start()
        _, broken = life
        with pytest.raises(UnavailableError, match="no weights"):
            await broken.ready()

    asyncio.run(run())
