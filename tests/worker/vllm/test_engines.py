"""A scenario that fails leaves nothing to the tests after it."""

from __future__ import annotations

import asyncio

import pytest

from engine.pipeline import load_pipeline
from tests.engine.running import listen, speak
from tests.worker.vllm.engines import running_engine

pytestmark = pytest.mark.process


class WrongError(Exception):
    """What a scenario fails with."""


def test_what_a_failed_scenario_had_running_ends_with_it() -> None:
    with running_engine(load_pipeline("sine")) as running:
        engine, reading = running.engine, list[asyncio.Task[object]]()

        async def fails() -> None:
            for name in ("read", "left"):
                await engine.add_request_async(
                    name, {"text": "One. "}, final_stage_id=1, resumable=True
                )
            reading.append(asyncio.create_task(listen(engine, "read")))
            raise WrongError

        with pytest.raises(WrongError):
            running.run(fails())
        assert [task.cancelled() for task in reading] == [True]
        assert engine._table.num_live == 0
        heard = running.run(speak(engine, "read", "Two."))
        assert heard.audio
