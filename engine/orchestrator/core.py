"""The orchestrator's state machine: messages and the clock in, effects out. No I/O, no threads.

A stage of a request goes through these states:

    IDLE ──input──> UNBOUND ──replica ready──> BOUND ──row.finished──> FINISHED
                       ▲                         │  │
                       └──── replica lost ───────┘  └── gap in the output, or interrupt
                       ▲                                          │
                       └──────── StageReleased ──── RELEASING <───┘

Each request ends with exactly one terminal message: its last output, or an error. After an error
or an abort its id stays in ``Releases`` until every replica that had it has let go. A request's way
through its stages is in ``flow``.
"""

from __future__ import annotations

from collections.abc import Callable

from engine.config import EngineConfig
from engine.messages import (
    AbortMessage,
    ConsumedMessage,
    DrainMessage,
    ErrorMessage,
    FromReplica,
    Hello,
    InteractionMessage,
    Pong,
    ReplicaFailed,
    ScaleMessage,
    ShutdownMessage,
    StageError,
    StageOutput,
    StageReleased,
    StageSubmissionMessage,
    StepFailed,
    ToOrchestrator,
    TrialAsk,
    TrialEnd,
    TrialGrant,
    refusal,
)
from engine.orchestrator.counters import CoreCounters, StageCounters
from engine.orchestrator.credit import CreditPolicy
from engine.orchestrator.deadlines import overdue
from engine.orchestrator.effects import AnswerAbort, Deliver, Effect, SendControl
from engine.orchestrator.flow import RequestFlow
from engine.orchestrator.interactions import Interactions
from engine.orchestrator.records import RequestRecord, StageState, new_record
from engine.orchestrator.releases import Releases
from engine.orchestrator.supervisor import ReplicaSupervisor
from engine.orchestrator.waiting_line import WaitingLine
from engine.pipeline import PipelineConfig
from engine.stage_pool import Replica, StagePool


class OrchestratorCore:
    """Routes requests through the stages. Every public method returns the effects it asks for."""

    def __init__(self, pipeline: PipelineConfig, config: EngineConfig) -> None:
        self.pipeline = pipeline
        self.config = config
        self.pools = [StagePool(i, stage) for i, stage in enumerate(pipeline.stages)]
        self.supervisor = ReplicaSupervisor(
            self.pools, config, self._emit, self._on_lost, self._on_ready
        )
        self.counters = CoreCounters([StageCounters() for _ in self.pools])
        self._effects: list[Effect] = []
        self._requests: dict[str, RequestRecord] = {}
        self._companion_parents: dict[str, str] = {}
        self._waiting = WaitingLine()
        self._num_running = self._num_arrived = 0
        self._releases = Releases(lambda message: self._emit(AnswerAbort(message)))
        self._flow = RequestFlow(
            pipeline,
            self.pools,
            self.supervisor,
            self._releases,
            self.counters,
            CreditPolicy(pipeline, config),
            emit=self._emit,
            forget=self._forget,
        )
        self._interactions = Interactions(self._flow, self.counters, self._emit)
        self._drain_deadline: float | None = None
        self._handlers: dict[type, Callable[..., None]] = {
            StageSubmissionMessage: self._submission,
            InteractionMessage: self._interaction,
            ConsumedMessage: self._consumed,
            AbortMessage: self._abort,
            ScaleMessage: self._scale,
            DrainMessage: self._drain,
            ShutdownMessage: self._shutdown,
        }
        self._replica_handlers: dict[type, Callable[..., None]] = {
            Hello: self.supervisor.hello,
            Pong: self.supervisor.pong,
            ReplicaFailed: self._replica_failed,
            StageOutput: self._stage_output,
            StageError: self._stage_error,
            StepFailed: self._step_failed,
            StageReleased: self._stage_released,
            TrialAsk: self._trial_ask,
            TrialEnd: self._trial_end,
        }

    # --- inputs ----------------------------------------------------------------------------------

    def start(self, now: float) -> list[Effect]:
        self.supervisor.start(now)
        return self.take_effects()

    def handle(self, message: ToOrchestrator, now: float) -> list[Effect]:
        """A message of the caller's side."""
        self._handlers[type(message)](message, now)
        return self.take_effects()

    def handle_replica(self, replica_id: str, message: FromReplica, now: float) -> list[Effect]:
        """A message of a replica; one that was evicted is no longer listened to."""
        if self.supervisor.find(replica_id) is not None:
            self._replica_handlers[type(message)](replica_id, message, now)
        return self.take_effects()

    def replica_exited(self, replica_id: str, reason: str, now: float) -> list[Effect]:
        self.supervisor.lost(replica_id, reason, now, kill=False)
        return self.take_effects()

    def replica_joined(self, replica_id: str, now: float) -> list[Effect]:
        """A replica on another machine has been heard of for the first time."""
        self.supervisor.joined(replica_id, now)
        return self.take_effects()

    def tick(self, now: float) -> list[Effect]:
        """Deadlines and heartbeats; call at least every ``heartbeat_interval_s``."""
        self.supervisor.tick(now)
        if self._drain_deadline is not None and now >= self._drain_deadline:
            self._fail_all("the server shut down before the request ended")
        for record in list(self._requests.values()):
            self._check_deadlines(record, now)
        self._start_waiting(now)
        return self.take_effects()

    def fail_request(self, request_id: str, reason: str) -> list[Effect]:
        """End a request that cannot go on, for a reason outside this core."""
        parent_id = self._companion_parents.get(request_id, request_id)
        record = self._requests.get(parent_id)
        if record is not None:
            self._flow.fail(record, "stage_failed", reason)
        return self.take_effects()

    def take_effects(self) -> list[Effect]:
        """The effects asked for since they were last taken."""
        effects, self._effects = self._effects, []
        return effects

    # --- state that others read ------------------------------------------------------------------

    @property
    def num_requests(self) -> int:
        return len(self._requests)

    @property
    def num_running(self) -> int:
        return self._num_running

    @property
    def is_releasing(self) -> bool:
        """Whether a replica has yet to let go of a request that has ended."""
        return len(self._releases) > 0

    @property
    def is_ready(self) -> bool:
        return self._drain_deadline is None and all(pool.ready() for pool in self.pools)

    @property
    def failure(self) -> str | None:
        """Why a stage has been given up, if one has."""
        return next((h.failure for h in self.supervisor.health if h.failure), None)

    def check_integrity(self) -> None:
        """Assert that nothing is left behind; call when no request should be running."""
        assert not self._requests, f"requests left: {sorted(self._requests)}"
        assert not self._companion_parents, f"companions left: {sorted(self._companion_parents)}"
        assert self._num_running == 0, f"{self._num_running} requests counted as running"
        self._releases.check_integrity()
        for pool in self.pools:
            pool.check_integrity()
            assert pool.num_bound == 0, f"stage {pool.config.name}: {pool.num_bound} bindings left"

    # --- caller's messages -----------------------------------------------------------------------

    def _submission(self, message: StageSubmissionMessage, now: float) -> None:
        if message.type == "streaming_update":
            self._streaming_update(message, now)
            return
        assert message.request_id not in self._requests, "the caller's side refuses duplicates"
        self._num_arrived += 1
        record = new_record(
            message,
            now,
            self._num_arrived,
            forwards_companions=self.pipeline.stages[0].forward_companions,
        )
        self._requests[record.request_id] = record
        for companion in message.companions:
            self._companion_parents[companion.request_id] = record.request_id
        self._waiting.push(record)
        self._start_waiting(now)

    def _streaming_update(self, message: StageSubmissionMessage, now: float) -> None:
        record = self._requests.get(message.request_id)
        if record is None or record.input_closed:
            return  # it has ended meanwhile: its terminal message says so
        record.input_closed = not message.resumable
        self._flow.append_update(record, 0, message.prompt, now, final=record.input_closed)

    def _interaction(self, message: InteractionMessage, now: float) -> None:
        record = self._requests.get(message.request_id)
        if record is None:  # it has ended meanwhile; whoever reads its end still hears of this
            reason = f"request {message.request_id!r} has ended"
            self._emit(Deliver(refusal(message, "unknown_request", reason)))
            return
        self._interactions.carry_out(record, message, now)
        self._start_waiting(now)

    def _consumed(self, message: ConsumedMessage, now: float) -> None:
        record = self._requests.get(message.request_id)
        if record is not None:
            self._flow.consumed(record, message.stage_id, message.num_taken)

    def _abort(self, message: AbortMessage, now: float) -> None:
        for request_id in message.request_ids:
            record = self._requests.get(request_id)
            if record is not None:
                self.counters.num_aborted += 1
                error = ErrorMessage(request_id, "aborted", "the request was aborted")
                self._flow.end(record, error)
        self._releases.add_abort(message.abort_id, message.request_ids)
        self._start_waiting(now)

    def _scale(self, message: ScaleMessage, now: float) -> None:
        self.supervisor.scale(self.pools[message.stage_id], message.num_replicas, now)

    def _drain(self, message: DrainMessage, now: float) -> None:
        self._drain_deadline = message.deadline

    def _shutdown(self, message: ShutdownMessage, now: float) -> None:
        self._fail_all("the server shut down before the request ended")
        self.supervisor.stop()
        self._releases.clear()

    # --- replicas' messages ----------------------------------------------------------------------

    def _replica_failed(self, replica_id: str, message: ReplicaFailed, now: float) -> None:
        self.supervisor.lost(replica_id, f"failed: {message.message}", now, kill=True)

    def _stage_output(self, replica_id: str, message: StageOutput, now: float) -> None:
        stage_id = self._stage_of(replica_id)
        self.counters.stages[stage_id].count(message)
        if message.num_routed_rows:
            self.supervisor.made_output(replica_id)
        for row in message.rows:
            record = self._bound_record(replica_id, stage_id, row.request_id)
            if record is None:
                continue
            if row.request_id == record.request_id:
                self._flow.row(record, stage_id, row, now)
            else:
                self._flow.companion_row(record, row, now)
        self._start_waiting(now)

    def _stage_error(self, replica_id: str, message: StageError, now: float) -> None:
        stage_id = self._stage_of(replica_id)
        record = self._bound_record(replica_id, stage_id, message.request_id)
        if record is None:
            return
        reason = message.message
        if message.unit is not None and record.submission.resumable and stage_id == 0:
            reason = f"segment {message.unit}: {reason}"
        if message.request_id == record.request_id:
            self._flow.fail(record, message.code, reason, message.param)
        else:
            assert record.group is not None
            role = record.group.companions[message.request_id].spec.role
            self._flow.fail(record, "stage_failed", f"its CFG companion {role!r} failed: {reason}")
        self._start_waiting(now)

    def _step_failed(self, replica_id: str, message: StepFailed, now: float) -> None:
        pool, _replica = self._find(replica_id)
        parents = {self._companion_parents.get(rid, rid) for rid in message.request_ids}
        for parent_id in sorted(parents):
            record = self._bound_record(replica_id, pool.stage_id, parent_id)
            if record is not None:
                self._flow.step_failed(record, pool.stage_id, message.message, now)
        self.supervisor.end_drained(pool, now)
        self._start_waiting(now)

    def _stage_released(self, replica_id: str, message: StageReleased, now: float) -> None:
        stage_id = self._stage_of(replica_id)
        for request_id in message.request_ids:
            self._releases.done(request_id, replica_id)
        parents = {self._companion_parents.get(rid, rid) for rid in message.request_ids}
        for parent_id in sorted(parents & self._requests.keys()):
            record = self._requests[parent_id]
            members = record.member_ids(stage_id)
            if not any(self._releases.is_held(m, replica_id) for m in members):
                self._flow.released(record, stage_id, now)
        self.supervisor.end_drained(self.pools[stage_id], now)
        self._start_waiting(now)

    # --- replicas that come and go ---------------------------------------------------------------

    def _on_ready(self, pool: StagePool, now: float) -> None:
        for record in sorted(self._requests.values(), key=lambda r: r.sort_key):
            self._flow.replica_ready(record, pool.stage_id, now)

    def _on_lost(self, pool: StagePool, replica: Replica, now: float) -> None:
        self._releases.replica_gone(replica.replica_id)
        for request_id in sorted(replica.bound):
            record = self._requests[request_id]
            self._flow.replica_lost(record, pool.stage_id, now, on_trial=replica.on_trial)
        self._start_waiting(now)

    def _trial_ask(self, replica_id: str, message: TrialAsk, now: float) -> None:
        """Granted always, whatever has become of the request: the replica waits for it."""
        _pool, replica = self._find(replica_id)
        replica.on_trial = self._companion_parents.get(message.request_id, message.request_id)
        self._emit(SendControl(replica_id, TrialGrant(message.request_id)))

    def _trial_end(self, replica_id: str, message: TrialEnd, now: float) -> None:
        pool, replica = self._find(replica_id)
        replica.on_trial = None
        parent_id = self._companion_parents.get(message.request_id, message.request_id)
        record = self._requests.get(parent_id)
        if record is not None and parent_id in replica.bound:
            record.stages[pool.stage_id].is_suspect = False

    # --- small things ----------------------------------------------------------------------------

    def _start_waiting(self, now: float) -> None:
        """Start requests while there are places; an id still being let go elsewhere has to wait."""
        while self._num_running < self.config.max_running:
            record = self._waiting.pop(self._requests.get, self._is_releasing)
            if record is None:
                return
            record.started_at = now
            self._num_running += 1
            self._flow.start(record, now)

    def _is_releasing(self, request_id: str) -> bool:
        return any(m in self._releases for m in self._requests[request_id].member_ids(0))

    def _forget(self, record: RequestRecord) -> None:
        """The flow has ended this request."""
        del self._requests[record.request_id]
        for companion in record.submission.companions:
            del self._companion_parents[companion.request_id]
        if record.started_at is None:
            self._waiting.note_gone(self._requests.get)
        else:
            self._num_running -= 1

    def _fail_all(self, reason: str) -> None:
        for record in list(self._requests.values()):
            self._flow.fail(record, "unavailable", reason)

    def _check_deadlines(self, record: RequestRecord, now: float) -> None:
        reason = overdue(record, now, self.pipeline.group_deadline_s)
        if reason is not None:
            self._flow.fail(record, "deadline_exceeded", reason)
        else:
            self._flow.check_unbound(record, now)

    def _bound_record(
        self, replica_id: str, stage_id: int, request_id: str
    ) -> RequestRecord | None:
        """The record, if the request runs on this replica now; what is late is dropped."""
        parent_id = self._companion_parents.get(request_id, request_id)
        record = self._requests.get(parent_id)
        replica = self.pools[stage_id].replica_of(parent_id)
        if record is None or replica is None or replica.replica_id != replica_id:
            return None
        return record if record.stages[stage_id].state is StageState.BOUND else None

    def _stage_of(self, replica_id: str) -> int:
        return self._find(replica_id)[0].stage_id

    def _find(self, replica_id: str) -> tuple[StagePool, Replica]:
        found = self.supervisor.find(replica_id)
        assert found is not None, "messages of evicted replicas are not handled"
        return found

    def _emit(self, effect: Effect) -> None:
        self._effects.append(effect)
