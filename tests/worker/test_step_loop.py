"""The step loop over a fake transport and the real tone model, or one that misbehaves."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Sequence
from typing import Any, cast

import pytest

from engine.errors import ConfigError, InvalidRequestError
from engine.messages import (
    FromReplica,
    Ping,
    Pong,
    SamplingParams,
    StageAbort,
    StageCredit,
    StageError,
    StageInteraction,
    StageOutput,
    StagePause,
    StageReleased,
    StageRequest,
    StageResume,
    StageUpdate,
    StepFailed,
    TrialAsk,
    TrialEnd,
    TrialGrant,
)
from engine.pipeline import PipelineConfig, StageConfig
from tests.worker.fake_lanes import FakeLanes
from worker.models.sine.notes import NotesStage
from worker.stage_model import Readiness, RowStatus, StageContext, StageModel, StepOutput
from worker.step_loop import StepHangsError, StepLoop
from worker.transport import Transport

TIMEOUT_S = 120.0


def make_loop(
    model: StageModel, lanes: FakeLanes, readiness: Readiness | None = None, **options: Any
) -> StepLoop:
    stage = StageConfig(name="s", model="m:m", engine_output_type="latent", **options)
    pipeline = PipelineConfig(name="p", description="d", stages=(stage,))
    return StepLoop(
        model,
        StageContext(pipeline, stage, 0, readiness or Readiness()),
        cast(Transport, lanes),
        orphan_timeout_s=30.0,
    )


def run_loop(
    model: StageModel, lanes: FakeLanes, readiness: Readiness | None = None, **options: Any
) -> None:
    """Run the loop until the script stops it."""
    loop = make_loop(model, lanes, readiness, **options)
    thread = threading.Thread(target=loop.run)
    thread.start()
    thread.join(TIMEOUT_S)
    assert not thread.is_alive(), "the loop did not stop"


def request(request_id: str, text: str = "one two", **options: Any) -> StageRequest:
    prompt = {"text": text, "base_hz": 220.0}
    return StageRequest(request_id, prompt, SamplingParams(), 0, **options)


def finished_ids(lanes: FakeLanes) -> list[str]:
    return [row.request_id for output in lanes.outputs() for row in output.rows if row.finished]


def stop_when_finished(*request_ids: str) -> FakeLanes:
    def script(lanes: FakeLanes, _message: FromReplica) -> None:
        if set(finished_ids(lanes)) >= set(request_ids):
            lanes.stop()

    return FakeLanes(script)


def test_at_debug_level_the_log_tells_when_each_step_ran(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("DEBUG", logger="voxloom.worker.step_loop")
    lanes = stop_when_finished("a")
    lanes.put(request("a"))
    before = time.monotonic()
    run_loop(NotesStage(), lanes)
    found = [re.fullmatch(r"s stepped from (.+) to (.+): \['a'\]", m) for m in caplog.messages]
    times = [float(t) for match in found if match is not None for t in match.groups()]
    assert times
    assert times == sorted(times)
    assert before - 0.001 <= times[0]
    assert times[-1] <= time.monotonic() + 0.001


def test_requests_run_to_their_end_and_are_let_go() -> None:
    model = NotesStage()
    lanes = stop_when_finished("a", "b")
    lanes.put(request("a"), request("b", "x y z"))
    run_loop(model, lanes)
    payloads = [
        row.request_id for o in lanes.outputs() for row in o.rows if row.payload is not None
    ]
    assert sorted(payloads) == ["a", "a", "b", "b", "b"]
    assert model.num_requests == 0


def test_work_that_comes_from_elsewhere_is_done_when_it_is_announced() -> None:
    """No message comes after the request: only the announcement says that there is work."""

    class Background(NotesStage):
        is_ready = False

        def has_work(self, request_id: str) -> bool:
            if not self.is_ready:
                threading.Thread(target=self.announce, args=(request_id,)).start()
            return self.is_ready and super().has_work(request_id)

        def announce(self, request_id: str) -> None:
            self.is_ready = True
            readiness.notify(request_id)

    readiness = Readiness()
    lanes = stop_when_finished("a")
    lanes.put(request("a"))
    run_loop(Background(), lanes, readiness)
    assert finished_ids(lanes) == ["a"]


def test_a_ping_is_answered_with_the_number_of_requests_held() -> None:
    def script(lanes: FakeLanes, message: FromReplica) -> None:
        if isinstance(message, Pong):
            lanes.stop()

    lanes = FakeLanes(script)
    lanes.put(request("a", paused=True), Ping(7))
    run_loop(NotesStage(), lanes)
    assert Pong(7, 1) in lanes.sent


def test_an_abort_lets_go_and_says_so() -> None:
    def script(lanes: FakeLanes, message: FromReplica) -> None:
        if isinstance(message, StageReleased):
            lanes.stop()

    model = NotesStage()
    lanes = FakeLanes(script)
    lanes.put(request("a", paused=True), StageAbort(["a", "unknown"]))
    run_loop(model, lanes)
    assert lanes.sent == [StageReleased(["a", "unknown"])]
    assert model.num_requests == 0


def test_pause_and_resume_hold_and_free_a_request() -> None:
    def script(lanes: FakeLanes, message: FromReplica) -> None:
        if isinstance(message, Pong):
            lanes.put(StageResume("a"))
        elif finished_ids(lanes):
            lanes.stop()

    lanes = FakeLanes(script)
    lanes.put(request("a", paused=True), StagePause("a"), Ping(1))
    run_loop(NotesStage(), lanes)
    assert isinstance(lanes.sent[0], Pong)
    assert finished_ids(lanes) == ["a"]


def test_segments_and_interactions_reach_the_model_in_order() -> None:
    lanes = stop_when_finished("a")
    lanes.put(
        request("a", "one", resumable=True),
        StageUpdate("a", 1, {"text": "two"}),
        StageInteraction("a", 2, "update", {"base_hz": 440.0}),
        StageUpdate("a", 3, {"text": "three"}, final=True),
    )
    run_loop(NotesStage(), lanes)
    rows = [row for output in lanes.outputs() for row in output.rows]
    assert sum(row.payload is not None for row in rows) == 3


def test_inputs_for_a_request_that_has_ended_are_dropped() -> None:
    lanes = stop_when_finished("b")
    lanes.put(
        StageUpdate("gone", 1, {"text": "x"}),
        StageInteraction("gone", 1, "flush"),
        request("b"),
    )
    run_loop(NotesStage(), lanes)
    assert not any(isinstance(message, StageError) for message in lanes.sent)


class Faulty(NotesStage):
    """Fails where a request's id says so."""

    def add(self, message: StageRequest) -> None:
        if "refused" in message.request_id:
            raise InvalidRequestError("no such voice", param="voice")
        super().add(message)

    def update(self, update: StageUpdate) -> None:
        if update.payload.get("text") == "bad":
            raise ValueError("cannot read this")
        super().update(update)

    def step(self, batch: Sequence[str]) -> StepOutput:
        if any("crash" in request_id for request_id in batch):
            raise RuntimeError("the whole step failed")
        output = super().step(batch)
        for request_id in batch:
            if "memory" in request_id:
                output.rows[request_id] = RowStatus(error=MemoryError())
        return output


@pytest.mark.parametrize(
    ("bad", "code"),
    [("refused", "invalid_value"), ("memory", "stage_failed"), ("crash", "stage_failed")],
)
def test_one_requests_failure_is_its_own(bad: str, code: str) -> None:
    model = Faulty()
    lanes = stop_when_finished("good")
    lanes.put(request(bad), request("good", "a b c d"))
    run_loop(model, lanes, max_batch_size=1)
    errors = [message for message in lanes.sent if isinstance(message, StageError)]
    assert [(error.request_id, error.code) for error in errors] == [(bad, code)]
    assert finished_ids(lanes) == ["good"]
    assert model.num_requests == 0


def test_a_segment_that_fails_names_itself() -> None:
    def script(lanes: FakeLanes, message: FromReplica) -> None:
        if isinstance(message, StageError):
            lanes.stop()

    lanes = FakeLanes(script)
    lanes.put(
        request("a", "one", resumable=True),
        StageUpdate("a", 1, {"text": "two"}),
        StageUpdate("a", 2, {"text": "bad"}),
    )
    run_loop(Faulty(), lanes)
    (error,) = [message for message in lanes.sent if isinstance(message, StageError)]
    assert error.unit == 2


class Gated(NotesStage):
    """Each step waits until it is let through."""

    def __init__(self) -> None:
        super().__init__()
        self.entered = threading.Semaphore(0)
        self.gate = threading.Semaphore(0)

    def step(self, batch: Sequence[str]) -> StepOutput:
        self.entered.release()
        assert self.gate.acquire(timeout=TIMEOUT_S)
        return super().step(batch)


def test_what_comes_for_a_request_in_its_step_waits_for_the_steps_end() -> None:
    model = Gated()
    lanes = FakeLanes()

    def conduct() -> None:
        assert model.entered.acquire(timeout=TIMEOUT_S)
        lanes.put(StageUpdate("a", 1, {"text": "late"}, final=True), StageAbort(["a"]), Ping(1))
        while Pong(1, 1) not in lanes.sent:
            lanes.answered.wait(1)
        assert not any(isinstance(m, StageReleased) for m in lanes.sent)
        model.gate.release()

    def script(current: FakeLanes, message: FromReplica) -> None:
        if isinstance(message, StageReleased):
            current.stop()

    lanes.script = script
    lanes.put(request("a", resumable=True))
    conductor = threading.Thread(target=conduct)
    conductor.start()
    run_loop(model, lanes)
    conductor.join()
    outputs = [message for message in lanes.sent if isinstance(message, StageOutput)]
    assert [row for output in outputs for row in output.rows] == []
    assert model.num_requests == 0


def test_an_abort_asks_the_running_step_to_end() -> None:
    class Endless(Gated):
        def abandon(self, request_id: str) -> None:
            assert request_id == "a"
            self.gate.release()

    model = Endless()
    lanes = FakeLanes()

    def conduct() -> None:
        assert model.entered.acquire(timeout=60)
        lanes.put(StageAbort(["a"]))

    def script(current: FakeLanes, message: FromReplica) -> None:
        if isinstance(message, StageReleased):
            current.stop()

    lanes.script = script
    lanes.put(request("a"))
    conductor = threading.Thread(target=conduct)
    conductor.start()
    run_loop(model, lanes)
    conductor.join()
    assert model.num_requests == 0


def test_a_suspect_is_not_touched_before_its_trial_is_granted() -> None:
    def script(lanes: FakeLanes, message: FromReplica) -> None:
        if isinstance(message, TrialAsk):
            held.append(model.num_requests)
            lanes.put(TrialGrant(message.request_id))
        elif isinstance(message, TrialEnd):
            lanes.stop()

    held: list[int] = []
    model = NotesStage()
    lanes = FakeLanes(script)
    lanes.put(request("a", "one two three", suspect=True, skip_position=1))
    run_loop(model, lanes)
    assert held == [0]
    rows = [row for output in lanes.outputs() for row in output.rows]
    assert [row.payload is not None for row in rows][:2] == [False, True]


@pytest.mark.parametrize("what", ["paused", "aborted", "idle"])
def test_a_trial_of_what_cannot_run_ends_at_once_and_holds_up_nobody(what: str) -> None:
    def script(lanes: FakeLanes, message: FromReplica) -> None:
        if isinstance(message, TrialAsk):
            if what == "aborted":
                lanes.put(StageAbort([message.request_id]))
            lanes.put(TrialGrant(message.request_id))
        elif "good" in finished_ids(lanes) and TrialEnd("a") in lanes.sent:
            lanes.stop()

    options = {"paused": what == "paused", "resumable": what == "idle"}
    lanes = FakeLanes(script)
    text = "" if what == "idle" else "one two"
    lanes.put(request("a", text, suspect=True, **options), request("good"))
    run_loop(NotesStage(), lanes)
    assert TrialEnd("a") in lanes.sent


def test_a_request_waits_at_its_limit_and_goes_on_with_more_credit() -> None:
    def script(lanes: FakeLanes, message: FromReplica) -> None:
        if isinstance(message, Pong):
            made.append(sum(o.num_routed_rows for o in lanes.outputs()))
            lanes.put(StageCredit("a", 3), StageCredit("a", 2), Ping(message.seq + 1))
            if len(made) > 20:
                lanes.put(StageCredit("a", 9))
        elif finished_ids(lanes):
            lanes.stop()

    made: list[int] = []
    lanes = FakeLanes(script)
    lanes.put(request("a", "one two three four five", credit=1), Ping(1))
    run_loop(NotesStage(), lanes)
    assert max(made[:20]) <= 3
    assert sum(o.num_routed_rows for o in lanes.outputs()) == 5


def test_a_step_that_fails_for_several_blames_nobody_and_holds_nothing() -> None:
    def script(lanes: FakeLanes, message: FromReplica) -> None:
        if isinstance(message, StepFailed):
            lanes.stop()

    model = Faulty()
    lanes = FakeLanes(script)
    lanes.put(request("crash"), request("good"))
    run_loop(model, lanes, max_batch_size=2)
    assert [m for m in lanes.sent if isinstance(m, StepFailed)] == [
        StepFailed(["crash", "good"], "the stage failed at this request: RuntimeError")
    ]
    assert not any(isinstance(message, StageError) for message in lanes.sent)
    assert model.num_requests == 0


def test_a_group_that_fails_in_its_step_is_to_blame_itself() -> None:
    def script(lanes: FakeLanes, _message: FromReplica) -> None:
        if sum(isinstance(m, StageError) for m in lanes.sent) == 2:
            lanes.stop()

    lanes = FakeLanes(script)
    lanes.put(
        request("crash", group_id="crash", group_size=2),
        request("crash/0", group_id="crash", group_size=2),
    )
    run_loop(Faulty(), lanes)
    errors = [m.request_id for m in lanes.sent if isinstance(m, StageError)]
    assert errors == ["crash", "crash/0"]


def test_a_step_that_hangs_ends_the_loop_although_pings_are_answered() -> None:
    model = Gated()
    lanes = FakeLanes()
    lanes.put(request("a"), Ping(1))
    loop = make_loop(model, lanes, step_timeout_s=0.05)
    with pytest.raises(StepHangsError, match=r"not ended within 0\.05 s"):
        loop.run()
    assert Pong(1, 1) in lanes.sent
    model.gate.release(2)


class Misreading(NotesStage):
    """Finds that its model file cannot be used when a request asks for it."""

    def add(self, message: StageRequest) -> None:
        raise ConfigError("voice.onnx has no input 'ids'; its inputs are: x, y")


def test_a_model_file_that_cannot_be_used_is_told_in_its_own_words() -> None:
    def script(lanes: FakeLanes, message: FromReplica) -> None:
        if isinstance(message, StageError):
            lanes.stop()

    lanes = FakeLanes(script)
    lanes.put(request("a"))
    run_loop(Misreading(), lanes)
    (error,) = [m for m in lanes.sent if isinstance(m, StageError)]
    assert error.message.endswith("voice.onnx has no input 'ids'; its inputs are: x, y")
