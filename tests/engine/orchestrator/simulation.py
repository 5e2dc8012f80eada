"""The real orchestrator core over in-process replicas and a virtual clock.

Each replica here keeps the promises of a real one (lanes, ``after_seq``, pauses, replays) and
computes nothing: a unit of stage 0 becomes ``CHUNKS_PER_UNIT`` chunks of stage 1. Whatever the
test does, ``check`` holds after each action and ``settle`` brings everything to its end.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from engine.buffering import caller_budget, next_stage_budget
from engine.config import EngineConfig
from engine.messages import (
    AbortMessage,
    AckMessage,
    CompanionSpec,
    ConsumedMessage,
    ErrorMessage,
    Fingerprint,
    Hello,
    InteractionMessage,
    OutputMessage,
    OutputRow,
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
    StageSubmissionMessage,
    StageUpdate,
    StepFailed,
    ToOrchestrator,
    ToReplica,
    TrialAsk,
    TrialEnd,
    TrialGrant,
)
from engine.orchestrator.core import OrchestratorCore
from engine.orchestrator.effects import (
    AnswerAbort,
    Deliver,
    Effect,
    KillReplica,
    SendControl,
    SendData,
    StartReplica,
)
from engine.pipeline import PipelineConfig, StageConfig

CHUNK = 100
CHUNKS_PER_UNIT = 3
SAMPLE_RATE = 8000
PRINT = Fingerprint("0", "none", {}, 1)


def two_stages(num_replicas: int = 1, **options: Any) -> PipelineConfig:
    return PipelineConfig(
        name="fake",
        description="units, then chunks",
        sample_rate=SAMPLE_RATE,
        stages=(
            StageConfig(name="units", model="none:none", num_replicas=num_replicas, **options),
            StageConfig(
                name="chunks",
                model="none:none",
                engine_output_type="audio",
                num_replicas=num_replicas,
                **options,
            ),
        ),
    )


@dataclass(slots=True)
class HeldRequest:
    """A request inside a fake replica."""

    request: StageRequest
    inputs: deque[tuple[int, int]] = field(default_factory=deque)  # number, outputs still to make
    num_inputs: int = 0
    is_open: bool = True
    is_paused: bool = False
    units_done: int = 0
    done_position: int = 0
    position: int = 0
    size: int = 1  # of one output
    num_flushes: int = 0
    num_sent: int = 0
    credit: int = 0

    def put(self, unit: int, num_outputs: int) -> None:
        assert unit == self.num_inputs, "inputs come in order, none twice"
        self.num_inputs = unit + 1
        checkpoint = self.request.checkpoint
        if checkpoint is not None and unit == self.request.first_unit:
            num_outputs = checkpoint["left"]
        if num_outputs:
            self.inputs.append((unit, num_outputs))
        self.note_progress()

    def take(self) -> None:
        unit, left = self.inputs.popleft()
        self.position += self.size
        if left > 1:
            self.inputs.appendleft((unit, left - 1))
        self.note_progress()

    def note_progress(self) -> None:
        """The inputs before the first that still makes output are done with.

        Units can be replayed from any of their outputs, chunks from the start of an input only.
        """
        done = self.inputs[0][0] if self.inputs else self.num_inputs
        if self.starts_input:
            self.units_done, self.done_position = max(done, self.units_done), self.position

    @property
    def checkpoint(self) -> dict[str, int] | None:
        is_amid = self.size == 1 and bool(self.inputs)
        return {"left": self.inputs[0][1]} if is_amid else None

    @property
    def starts_input(self) -> bool:
        full = 1 if self.size == 1 else CHUNKS_PER_UNIT
        return self.size == 1 or not self.inputs or self.inputs[0][1] == full

    @property
    def has_work(self) -> bool:
        if self.is_paused or self.num_sent >= self.credit:
            return False
        return bool(self.inputs) or not self.is_open


class FakeReplica:
    def __init__(self, replica_id: str, stage_id: int) -> None:
        self.replica_id = replica_id
        self.stage_id = stage_id
        self.is_hung = False
        self.data: deque[ToReplica] = deque()
        self.control: deque[ToReplica] = deque()
        self.num_data_received = 0
        self.requests: dict[str, HeldRequest] = {}
        self.suspects: dict[str, int] = {}  # how far they had come before
        self.trial_id: str | None = None
        self.is_granted = False
        self.answers: list[Any] = []

    def receive_data(self) -> None:
        if not self.data:
            return
        self.num_data_received += 1
        message = self.data.popleft()
        assert isinstance(message, StageRequest | StageUpdate | StageInteraction)
        if isinstance(message, StageRequest):
            self._add(message)
        elif message.request_id in self.requests:
            self._update(self.requests[message.request_id], message)

    def receive_control(self) -> None:
        if not self.control:
            return
        message = self.control.popleft()
        while self.num_data_received < getattr(message, "after_seq", 0):
            self.receive_data()
        match message:
            case Ping():
                self.answers.append(Pong(message.seq, len(self.requests)))
            case StageAbort():
                for request_id in message.request_ids:
                    self.drop(request_id)
                self.answers.append(StageReleased(message.request_ids))
            case TrialGrant():
                assert message.request_id == self.trial_id, "a grant that nobody asked for"
                self.is_granted = True
            case StagePause() | StageResume():
                held = self.requests.get(message.request_id)
                if held is not None:
                    held.is_paused = isinstance(message, StagePause)
            case StageCredit():
                held = self.requests.get(message.request_id)
                if held is not None:
                    held.credit = max(held.credit, message.credit)

    def drop(self, request_id: str) -> None:
        self.requests.pop(request_id, None)
        self.suspects.pop(request_id, None)

    def runnable(self) -> list[str]:
        """A suspect runs alone, and only with the orchestrator's grant."""
        ready = sorted(rid for rid, held in self.requests.items() if self.can_run(held))
        if self.is_granted:
            return [rid for rid in ready if self._parent(rid) == self._parent(self.trial_id or "")]
        return [rid for rid in ready if not self._is_suspect(rid)]

    def check_trial(self) -> None:
        if self.trial_id is not None and self.is_granted:
            if self._is_suspect(self.trial_id) and self.can_run(self.requests[self.trial_id]):
                return
            self.answers.append(TrialEnd(self.trial_id))
            self.suspects = {
                r: p for r, p in self.suspects.items() if self._parent(r) != self.trial_id
            }
            self.trial_id, self.is_granted = None, False
        ready = [rid for rid, held in self.requests.items() if self.can_run(held)]
        asking = [self._parent(rid) for rid in ready if self._is_suspect(rid)]
        if self.trial_id is None and asking:
            self.trial_id = asking[0]
            self.answers.append(TrialAsk(self.trial_id))

    def _is_suspect(self, request_id: str) -> bool:
        return any(self._parent(r) == self._parent(request_id) for r in self.suspects)

    @staticmethod
    def _parent(request_id: str) -> str:
        return request_id.partition("/")[0]

    def can_run(self, held: HeldRequest) -> bool:
        """A group runs when its members are all there and none is paused."""
        group_id = held.request.group_id
        if group_id is None:
            return held.has_work
        members = [m for m in self.requests.values() if m.request.group_id == group_id]
        return len(members) == held.request.group_size and all(m.has_work for m in members)

    def step(self, request_id: str, *, drop_payload: bool = False) -> StageOutput:
        """One step of one request, or of its whole group.

        A dropped payload is one that the routing did not route.
        """
        group_id = self.requests[request_id].request.group_id
        batch = [request_id]
        if group_id is not None:
            batch = [r for r, held in self.requests.items() if held.request.group_id == group_id]
        rows = [self._row(self.requests[r]) for r in batch]
        if drop_payload and rows[0].payload is not None:
            row = rows[0]
            row.start_sample, row.payload = row.start_sample + row.num_samples, None
            row.num_samples = 0
        for row in rows:
            if row.finished:
                self.drop(row.request_id)
            elif row.start_sample + row.num_samples > self.suspects.get(row.request_id, 1 << 60):
                del self.suspects[row.request_id]
        self.check_trial()
        num_routed = sum(row.payload is not None for row in rows)
        return StageOutput(rows, len(batch), num_routed, 0.1)

    def _add(self, message: StageRequest) -> None:
        assert message.request_id not in self.requests, "a request is given to a replica once"
        held = HeldRequest(
            message,
            is_paused=message.paused,
            units_done=message.first_unit,
            done_position=message.start_position,
            position=message.start_position,
            num_inputs=message.first_unit,
            size=1 if self.stage_id == 0 else CHUNK,
            num_sent=message.num_sent,
            credit=message.credit,
        )
        self.requests[message.request_id] = held
        if message.suspect:
            self.suspects[message.request_id] = message.skip_position
        if self.stage_id == 0:
            held.is_open = message.resumable
            if message.first_unit == 0:
                held.put(0, message.prompt["num_units"])

    def _update(self, held: HeldRequest, message: StageUpdate | StageInteraction) -> None:
        if isinstance(message, StageInteraction):
            held.put(message.unit, 0)
            held.num_flushes += 1
            return
        num_outputs = message.payload.get("num_units", 0)
        if self.stage_id > 0:
            num_outputs = CHUNKS_PER_UNIT if message.payload else 0
            if held.request.prompt["begins_at"] == self.stage_id:
                num_outputs = CHUNKS_PER_UNIT * held.request.prompt["num_units"]
        held.put(message.unit, num_outputs)
        held.is_open = not message.final

    @staticmethod
    def _row(held: HeldRequest) -> OutputRow:
        num_samples, skip = 0, held.request.skip_position
        if held.inputs:
            held.take()
            num_samples = min(held.size, max(0, held.position - skip))
            held.num_sent += num_samples
        end = max(held.position, skip)
        payload = {"audio": num_samples} if num_samples else None
        return OutputRow(
            held.request.request_id,
            payload,
            start_sample=end - num_samples,
            num_samples=num_samples,
            units_done=held.units_done,
            done_position=held.done_position,
            checkpoint=held.checkpoint,
            finished=not held.inputs and not held.is_open,
        )


@dataclass(slots=True)
class Caller:
    """What the caller of one request has seen."""

    num_units: int
    is_closed: bool
    num_samples: int = 0
    num_outputs: int = 1
    sent: dict[int, int] = field(default_factory=dict)  # of each stage's output
    consumed: dict[int, int] = field(default_factory=dict)
    was_cut: bool = False
    terminals: list[OutputMessage | ErrorMessage] = field(default_factory=list)
    acks: list[str] = field(default_factory=list)
    reads: bool = True

    @property
    def expected_samples(self) -> int:
        return self.num_units * CHUNKS_PER_UNIT * CHUNK


class Simulation:
    """Drives the core. ``now`` moves only when told to."""

    def __init__(
        self, pipeline: PipelineConfig | None = None, config: EngineConfig | None = None
    ) -> None:
        self.config = config or EngineConfig()
        self.core = OrchestratorCore(pipeline or two_stages(), self.config)
        self.now = 0.0
        self.replicas: dict[str, FakeReplica] = {}
        self.callers: dict[str, Caller] = {}
        self.answered_aborts: list[int] = []
        self.rows_at: dict[str, int] = {}  # for tests that write their own rows
        self._num_aborts = 0
        self.carry_out(self.core.start(self.now))

    # --- what a caller does ----------------------------------------------------------------------

    def add(self, request_id: str, num_units: int = 2, **options: Any) -> None:
        resumable = options.pop("resumable", False)
        num_companions = options.pop("num_companions", 0)
        output_ids = options.pop("final_output_stage_ids", [1])
        self.callers[request_id] = Caller(
            num_units, is_closed=not resumable, num_outputs=len(output_ids)
        )
        prompt = {"num_units": num_units, "begins_at": options.get("first_stage_id", 0)}
        submission = StageSubmissionMessage(
            type="add_request",
            request_id=request_id,
            prompt=prompt,
            original_prompt=prompt,
            sampling_params_list=[SamplingParams(), SamplingParams()],
            final_stage_id=options.pop("final_stage_id", 1),
            final_output_stage_ids=output_ids,
            companions=[
                CompanionSpec(f"{request_id}/{i}", f"role{i}", prompt, [SamplingParams()])
                for i in range(num_companions)
            ],
            resumable=resumable,
            **options,
        )
        self.submit(submission)

    def update(self, request_id: str, num_units: int, *, final: bool) -> None:
        caller = self.callers[request_id]
        caller.num_units += num_units
        caller.is_closed = final
        prompt = {"num_units": num_units}
        self.submit(
            StageSubmissionMessage(
                type="streaming_update",
                request_id=request_id,
                prompt=prompt,
                original_prompt=prompt,
                sampling_params_list=[],
                final_stage_id=1,
                final_output_stage_ids=[1],
                resumable=not final,
            )
        )

    def interact(self, request_id: str, kind: str, event_id: str = "e") -> None:
        self.callers[request_id].was_cut |= kind == "interrupt"
        self.submit(InteractionMessage(request_id, event_id, kind))

    def abort(self, *request_ids: str) -> int:
        self._num_aborts += 1
        self.submit(AbortMessage(list(request_ids), self._num_aborts))
        return self._num_aborts

    def consume(self, request_id: str) -> None:
        caller = self.callers[request_id]
        for stage_id, sent in caller.sent.items():
            if caller.consumed.get(stage_id, 0) != sent:
                caller.consumed[stage_id] = sent
                self.submit(ConsumedMessage(request_id, stage_id, sent))

    def submit(self, message: ToOrchestrator) -> None:
        self.carry_out(self.core.handle(message, self.now))

    # --- what replicas do ------------------------------------------------------------------------

    def say_hello(self, replica_id: str, /, **fields: Any) -> None:
        replica = self.replicas[replica_id]
        hello = Hello(replica_id, replica.stage_id, 1, PRINT)
        for name, value in fields.items():
            setattr(hello, name, value)
        self.carry_out(self.core.handle_replica(replica_id, hello, self.now))

    def start_all(self) -> None:
        for replica_id in list(self.replicas):
            self.say_hello(replica_id)

    def kill(self, replica_id: str) -> None:
        del self.replicas[replica_id]
        exited = self.core.replica_exited(replica_id, "was killed by SIGKILL", self.now)
        self.carry_out(exited)

    def receive(self, replica_id: str) -> None:
        """Let a replica take all messages that wait for it, and answer."""
        replica = self.replicas[replica_id]
        while replica.control or replica.data:
            replica.receive_control()
            replica.receive_data()
        replica.check_trial()
        self._answer(replica)

    def step(self, replica_id: str, request_id: str, *, drop_payload: bool = False) -> None:
        replica = self.replicas[replica_id]
        output = replica.step(request_id, drop_payload=drop_payload)
        self.carry_out(self.core.handle_replica(replica_id, output, self.now))
        self._answer(replica)

    def fail_request(self, replica_id: str, request_id: str) -> None:
        self.replicas[replica_id].drop(request_id)
        error = StageError(request_id, "stage_failed", "the stage failed at this request")
        self.carry_out(self.core.handle_replica(replica_id, error, self.now))

    def fail_step(self, replica_id: str, *request_ids: str) -> None:
        """A step of several requests raises: the replica lets go of all of them."""
        replica = self.replicas[replica_id]
        for request_id in request_ids:
            replica.drop(request_id)
        failed = StepFailed(list(request_ids), "MemoryError")
        self.carry_out(self.core.handle_replica(replica_id, failed, self.now))

    def advance(self, seconds: float) -> None:
        self.now += seconds
        self.carry_out(self.core.tick(self.now))

    def run(self, max_rounds: int = 10_000) -> None:
        """Let replicas work and callers read until nothing more happens."""
        for _ in range(max_rounds):
            if not self.turn():
                return
        raise AssertionError("the simulation does not come to rest")

    def turn(self) -> bool:
        """One round of everything that can happen now; whether something did."""
        busy = False
        for replica_id in list(self.replicas):
            replica = self.replicas.get(replica_id)
            if replica is None or replica.is_hung:
                continue
            busy |= bool(replica.control or replica.data or replica.answers)
            self.receive(replica_id)
            for request_id in replica.runnable():
                held = replica.requests.get(request_id)
                if replica_id in self.replicas and held is not None and replica.can_run(held):
                    busy = True
                    self.step(replica_id, request_id)
        for request_id, caller in self.callers.items():
            if caller.reads and not caller.terminals:
                self.consume(request_id)
        return busy

    def settle(self) -> None:
        """Bring every request to its end: close, read, restart, then check that nothing is left."""
        for request_id, caller in self.callers.items():
            caller.reads = True
            if not caller.terminals:
                self.interact(request_id, "resume")
                if not caller.is_closed:
                    self.update(request_id, 0, final=True)
        for replica in self.replicas.values():
            replica.is_hung = False
        for _ in range(100):
            for replica_id in list(self.replicas):
                self.say_hello(replica_id)
            self.run()
            if all(caller.terminals for caller in self.callers.values()):
                break
            self.advance(1.0)
        self.run()
        self.check()
        for request_id, caller in self.callers.items():
            assert len(caller.terminals) == 1, f"{request_id}: {caller.terminals}"
        self.core.check_integrity()
        assert sorted(self.answered_aborts) == list(range(1, self._num_aborts + 1))
        assert not any(replica.requests for replica in self.replicas.values())

    # --- effects and invariants ------------------------------------------------------------------

    def carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Deliver(message):
                    self._deliver(message)
                case SendData(replica_id, message):
                    self.replicas[replica_id].data.append(message)
                case SendControl(replica_id, message):
                    self.replicas[replica_id].control.append(message)
                case AnswerAbort(message):
                    self.answered_aborts.append(message.abort_id)
                case StartReplica(stage_id, replica_id, _):
                    self.replicas[replica_id] = FakeReplica(replica_id, stage_id)
                case KillReplica(replica_id):
                    self.replicas.pop(replica_id, None)
        self.check()

    def check(self) -> None:
        for request_id, caller in self.callers.items():
            assert len(caller.terminals) <= 1, f"{request_id} ended twice"
            self._check_buffered(caller)
        self._check_waiting()

    def _check_buffered(self, caller: Caller) -> None:
        """What waits for a caller is within its bound, but for the output of one step."""
        for stage_id, sent in caller.sent.items():
            budget = caller_budget(self.core.pipeline, self.config, stage_id, caller.num_outputs)
            waiting = sent - caller.consumed.get(stage_id, 0)
            assert waiting < budget + (CHUNK if stage_id == 1 else 1), "too much was made"

    def _check_waiting(self) -> None:
        """What waits between the stages is within its bound, but for the end of the text."""
        limit = next_stage_budget(self.core.pipeline, self.config, 0)
        for record in self.core._requests.values():
            assert all(len(stage.inputs) <= limit + 1 for stage in record.stages[1:])

    def _deliver(self, message: OutputMessage | ErrorMessage | AckMessage) -> None:
        assert message.request_id in self.callers, "a companion was delivered"
        caller = self.callers[message.request_id]
        is_late_answer = isinstance(message, ErrorMessage) and not message.fatal
        assert is_late_answer or not caller.terminals, f"{message.request_id}: output after its end"
        match message:
            case AckMessage():
                if message.kind == "interrupt":  # what was not taken is dropped
                    caller.consumed = dict(caller.sent)
                caller.acks.append(message.event_id)
            case ErrorMessage() if not message.fatal:
                caller.acks.append(f"error:{message.event_id}")
            case ErrorMessage():
                caller.terminals.append(message)
            case OutputMessage():
                self._take_output(caller, message)

    @staticmethod
    def _take_output(caller: Caller, message: OutputMessage) -> None:
        if message.stage_id == 1 and message.payload is not None:
            assert message.start_sample == caller.num_samples, "a gap or an overlap was delivered"
            caller.num_samples += message.num_samples
        caller.sent[message.stage_id] = message.start_sample + message.num_samples
        if message.finished:
            caller.terminals.append(message)
            if message.stage_id == 1:
                is_whole = caller.num_samples == caller.expected_samples
                assert is_whole or caller.was_cut, "ended short"

    def _answer(self, replica: FakeReplica) -> None:
        answers, replica.answers = replica.answers, []
        for message in answers:
            effects = self.core.handle_replica(replica.replica_id, message, self.now)
            self.carry_out(effects)
