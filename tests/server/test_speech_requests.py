"""A session's requests to the engine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from engine.errors import OverloadedError, StageFailedError
from server.audio.formats import AudioFormat
from server.context import RequestContext
from server.sessions.effects import AppendText, ChangeVoice, EndText, FlushText, StartUtterance
from server.speech_plan import SessionPlan
from server.speech_requests import SpeechRequests
from tests.server.fake_engine import RATE, FakeEngine, Script

PLAN = SessionPlan(
    prompt={"text": "", "voice": "anna", "speed": 1.0},
    sampling=None,
    fmt=AudioFormat.PCM,
    source_rate=RATE,
    sample_rate=RATE,
    stream_audio=True,
    as_json=False,
    has_words=False,
    granularity="none",
)


class RecordingEngine(FakeEngine):
    """Keeps the ids and deadlines of its requests, and who was aborted."""

    def __init__(self, script: Script | None = None, max_running: int = 8) -> None:
        super().__init__(script, max_running)
        self.deadlines: dict[str, float | None] = {}
        self.aborted: list[str] = []

    async def add_request_async(self, request_id: str, prompt: object, **options: object) -> None:
        await super().add_request_async(request_id, prompt, **options)  # type: ignore[arg-type]
        self.deadlines[request_id] = options["deadline"]  # type: ignore[assignment]

    async def abort(self, request_ids: list[str]) -> None:
        self.aborted += request_ids
        await super().abort(request_ids)


def run(
    scenario: Callable[[SpeechRequests, RecordingEngine], Awaitable[None]],
    engine: RecordingEngine | None = None,
    timeout_s: float | None = None,
) -> None:
    """A scenario; afterwards the engine has nothing open."""
    used = engine or RecordingEngine()

    async def connect() -> None:
        requests = SpeechRequests(used, RequestContext("req_1"), timeout_s)
        async with asyncio.timeout(120):
            await scenario(requests, used)
            await requests.close()

    asyncio.run(connect())
    assert used.streams == {}
    assert used.admission.num_taken == 0


async def speak(requests: SpeechRequests, index: int, text: str) -> None:
    await requests.carry_out(StartUtterance(index), PLAN)
    await requests.carry_out(AppendText(index, text), PLAN)
    await requests.carry_out(EndText(index), PLAN)


def test_text_goes_in_and_audio_comes_out() -> None:
    async def scenario(requests: SpeechRequests, engine: RecordingEngine) -> None:
        await speak(requests, 0, "Hello.")
        outputs = [output async for output in requests.outputs(0)]

        assert outputs[-1].finished
        assert sum(output.num_samples for output in outputs) == engine.ended[0].num_samples > 0
        requests.forget(0)
        assert engine.aborted == []

    run(scenario)


def test_orders_reach_their_own_request_in_order() -> None:
    async def scenario(requests: SpeechRequests, engine: RecordingEngine) -> None:
        for index in (0, 1):
            await requests.carry_out(StartUtterance(index), PLAN)
        await requests.carry_out(AppendText(1, "One"), PLAN)
        await requests.carry_out(FlushText(1), PLAN)
        await requests.carry_out(AppendText(0, "Other"), PLAN)
        await requests.carry_out(ChangeVoice(1, {"speed": 2.0}), PLAN)
        first, second = engine.streams.values()
        assert first.log == ["Other"]
        assert second.log == ["One", ("flush", {}), ("update", {"speed": 2.0})]
        for index in (0, 1):
            requests.forget(index)

    run(scenario)


def test_ids_are_unique_and_deadlines_are_those_of_the_settings() -> None:
    async def scenario(requests: SpeechRequests, engine: RecordingEngine) -> None:
        before = time.monotonic()
        for index in range(3):
            await requests.carry_out(StartUtterance(index), PLAN)
            requests.abort(index)
        assert len(engine.deadlines) == 3
        for deadline in engine.deadlines.values():
            assert deadline is not None
            assert before + 9 <= deadline <= time.monotonic() + 9

    run(scenario, timeout_s=9)


def test_without_a_limit_there_is_no_deadline() -> None:
    async def scenario(requests: SpeechRequests, engine: RecordingEngine) -> None:
        await requests.carry_out(StartUtterance(0), PLAN)
        requests.abort(0)
        assert list(engine.deadlines.values()) == [None]

    run(scenario)


def test_an_abort_goes_out_once_and_is_waited_for_at_the_end() -> None:
    async def scenario(requests: SpeechRequests, engine: RecordingEngine) -> None:
        await requests.carry_out(StartUtterance(0), PLAN)
        requests.abort(0)
        requests.abort(0)
        requests.forget(0)
        assert engine.aborted == []  # nobody has waited yet
        await requests.close()
        assert len(engine.aborted) == 1

    run(scenario)


def test_of_an_aborted_request_nothing_comes() -> None:
    async def scenario(requests: SpeechRequests, engine: RecordingEngine) -> None:
        await requests.carry_out(StartUtterance(0), PLAN)
        requests.abort(0)

        assert [output async for output in requests.outputs(0)] == []

    run(scenario)


def test_a_request_that_failed_is_not_aborted_again() -> None:
    async def scenario(requests: SpeechRequests, engine: RecordingEngine) -> None:
        await speak(requests, 0, "Hello.")
        with pytest.raises(StageFailedError):
            _ = [output async for output in requests.outputs(0)]
        requests.forget(0)
        assert engine.aborted == []

    run(scenario, RecordingEngine(Script(fail_at_chunk=0, error=StageFailedError("lost"))))


def test_a_full_engine_refuses_and_leaves_nothing_behind() -> None:
    async def scenario(requests: SpeechRequests, engine: RecordingEngine) -> None:
        await requests.carry_out(StartUtterance(0), PLAN)
        with pytest.raises(OverloadedError):
            await requests.carry_out(StartUtterance(1), PLAN)
        assert [output async for output in requests.outputs(1)] == []
        requests.forget(0)

    run(scenario, RecordingEngine(max_running=1))


def test_the_time_of_its_start_is_known_until_it_is_forgotten() -> None:
    async def scenario(requests: SpeechRequests, engine: RecordingEngine) -> None:
        before = time.monotonic()
        await requests.carry_out(StartUtterance(0), PLAN)
        assert before <= requests.started_at(0) <= time.monotonic()
        requests.forget(0)
        with pytest.raises(KeyError):
            requests.started_at(0)

    run(scenario)


def test_an_order_for_a_request_that_is_over_does_nothing() -> None:
    """Its failure may be on its way to the session that gives the order."""

    async def scenario(requests: SpeechRequests, _: RecordingEngine) -> None:
        await speak(requests, 0, "Hello.")
        requests.abort(0)
        for order in (AppendText(0, "More."), FlushText(0), ChangeVoice(0, {}), EndText(0)):
            await requests.carry_out(order, PLAN)

    run(scenario)
