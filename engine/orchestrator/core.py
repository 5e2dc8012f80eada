"""The orchestrator's state machine: messages and the clock in, effects out. No I/O, no threads.

A stage of a request goes through these states:

    IDLE ──input──> UNBOUND ──replica ready──> BOUND ──row.finished──> FINISHED
                       ▲                         │  │
                       └──── replica lost ───────┘  └── gap in start_sample ──> RELEASING
                       ▲                                                          │
                       └────────────────── StageReleased ─────────────────────────┘

Each request ends with exactly one terminal message: its last output, or an error. After an error
or an abort its id stays in ``_releasing`` until every replica that had it has let go.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field

from engine.config import EngineConfig
from engine.messages import (
    AbortedMessage,
    AbortMessage,
    AckMessage,
    ConsumedMessage,
    DrainMessage,
    ErrorMessage,
    FromReplica,
    Hello,
    InteractionMessage,
    OutputMessage,
    OutputRow,
    Payload,
    Pong,
    ReplicaFailed,
    ScaleMessage,
    ShutdownMessage,
    StageAbort,
    StageAck,
    StageError,
    StageInteraction,
    StageOutput,
    StagePause,
    StageReleased,
    StageResume,
    StageSubmissionMessage,
    ToOrchestrator,
    ToReplica,
)
from engine.orchestrator.effects import AnswerAbort, Deliver, Effect, SendControl, SendData
from engine.orchestrator.records import PauseReason, RequestRecord, StageState, new_record
from engine.orchestrator.supervisor import ReplicaSupervisor
from engine.pipeline import PipelineConfig
from engine.stage_pool import Replica, StagePool

# A request that was running when its replica died twice in a row, without any output in between,
# is taken to be the cause.
_MAX_ATTEMPTS = 2


@dataclass(slots=True)
class StageCounters:
    """What the steps of one stage did since the start; read by the metrics.

    A subset step is one that routed output to fewer requests than its batch held.
    """

    num_steps: int = 0
    num_subset_steps: int = 0
    num_batch_rows: int = 0
    num_routed_rows: int = 0
    step_ms: float = 0.0


@dataclass(slots=True)
class CoreCounters:
    """Totals since the start; read by the metrics."""

    stages: list[StageCounters] = field(default_factory=list)
    num_finished: int = 0
    num_failed: int = 0
    num_aborted: int = 0
    num_replays: int = 0


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
        self._max_buffered_samples = int(config.max_buffered_audio_s * pipeline.sample_rate)
        self._effects: list[Effect] = []
        self._requests: dict[str, RequestRecord] = {}
        self._waiting: list[tuple[tuple[int, int], str]] = []
        self._num_running = 0
        self._num_arrived = 0
        self._releasing: dict[str, set[str]] = {}
        self._aborts: dict[int, set[str]] = {}
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
            Hello: lambda _replica_id, message, now: self.supervisor.hello(message, now),
            Pong: self.supervisor.pong,
            ReplicaFailed: self._replica_failed,
            StageOutput: self._stage_output,
            StageError: self._stage_error,
            StageAck: self._stage_ack,
            StageReleased: self._stage_released,
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

    def tick(self, now: float) -> list[Effect]:
        """Deadlines and heartbeats; call at least every ``heartbeat_interval_s``."""
        self.supervisor.tick(now)
        if self._drain_deadline is not None and now >= self._drain_deadline:
            for record in list(self._requests.values()):
                self._fail(record, "unavailable", "the server shut down before the request ended")
        for record in list(self._requests.values()):
            self._check_deadlines(record, now)
        return self.take_effects()

    # --- state that others read ------------------------------------------------------------------

    @property
    def num_requests(self) -> int:
        return len(self._requests)

    @property
    def num_running(self) -> int:
        return self._num_running

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
        assert not self._releasing, f"still releasing: {sorted(self._releasing)}"
        assert not self._aborts, f"aborts unanswered: {sorted(self._aborts)}"
        assert not self._waiting, "waiting queue not empty"
        assert self._num_running == 0, f"{self._num_running} requests counted as running"
        for pool in self.pools:
            pool.check_integrity()
            assert pool.num_bound == 0, f"stage {pool.config.name}: {pool.num_bound} bindings left"

    # --- caller's messages -----------------------------------------------------------------------

    def _submission(self, message: StageSubmissionMessage, now: float) -> None:
        if message.type == "streaming_update":
            self._streaming_update(message)
            return
        assert message.request_id not in self._requests, "the caller's side refuses duplicates"
        self._num_arrived += 1
        record = new_record(message, now, self._num_arrived)
        self._requests[record.request_id] = record
        heapq.heappush(self._waiting, (record.sort_key, record.request_id))
        self._start_waiting(now)

    def _streaming_update(self, message: StageSubmissionMessage) -> None:
        record = self._requests.get(message.request_id)
        if record is None or record.input_closed:
            return  # it has ended meanwhile: its terminal message says so
        record.input_closed = not message.resumable
        self._append_input(record, 0, message.prompt, final=record.input_closed)

    def _interaction(self, message: InteractionMessage, now: float) -> None:
        record = self._requests.get(message.request_id)
        if record is None:
            return  # it has ended meanwhile: its terminal message says so
        if message.kind in ("pause", "resume"):
            on = message.kind == "pause"
            for stage_id in range(len(record.stages)):
                self._set_pause(record, stage_id, PauseReason.INTERACTION, on=on)
            ack = AckMessage(record.request_id, message.event_id, message.kind)
            self._emit(Deliver(ack))
            return
        replica = self.pools[0].replica_of(record.request_id)
        if replica is None:
            self._refuse_interaction(record, message.event_id, "the request is not running yet")
            return
        control = StageInteraction(
            record.request_id, message.event_id, message.kind, arguments=message.arguments
        )
        self._send_control(replica, control)

    def _consumed(self, message: ConsumedMessage, now: float) -> None:
        record = self._requests.get(message.request_id)
        if record is not None:
            record.consumed_samples = message.num_samples
            self._check_buffered(record)

    def _abort(self, message: AbortMessage, now: float) -> None:
        for request_id in message.request_ids:
            record = self._requests.get(request_id)
            if record is not None:
                self.counters.num_aborted += 1
                self._end(record, ErrorMessage(request_id, "aborted", "the request was aborted"))
        pending = {rid for rid in message.request_ids if rid in self._releasing}
        self._aborts[message.abort_id] = pending
        self._answer_aborts()
        self._start_waiting(now)

    def _scale(self, message: ScaleMessage, now: float) -> None:
        self.supervisor.scale(self.pools[message.stage_id], message.num_replicas, now)

    def _drain(self, message: DrainMessage, now: float) -> None:
        self._drain_deadline = message.deadline

    def _shutdown(self, message: ShutdownMessage, now: float) -> None:
        for record in list(self._requests.values()):
            self._fail(record, "unavailable", "the server shut down before the request ended")
        self.supervisor.stop()
        self._releasing.clear()
        self._answer_aborts()

    # --- replicas' messages ----------------------------------------------------------------------

    def _replica_failed(self, replica_id: str, message: ReplicaFailed, now: float) -> None:
        self.supervisor.lost(replica_id, f"failed: {message.message}", now, kill=True)

    def _stage_output(self, replica_id: str, message: StageOutput, now: float) -> None:
        stage_id = self._stage_of(replica_id)
        counters = self.counters.stages[stage_id]
        counters.num_steps += 1
        counters.num_batch_rows += message.num_batch_rows
        counters.num_routed_rows += message.num_routed_rows
        counters.num_subset_steps += message.num_routed_rows < message.num_batch_rows
        counters.step_ms += message.step_ms
        for row in message.rows:
            record = self._bound_record(replica_id, stage_id, row.request_id)
            if record is not None:
                self._row(record, stage_id, row, now)
        self._start_waiting(now)

    def _stage_error(self, replica_id: str, message: StageError, now: float) -> None:
        stage_id = self._stage_of(replica_id)
        record = self._bound_record(replica_id, stage_id, message.request_id)
        if record is not None:
            self._fail(record, message.code, message.message, message.param)
            self._start_waiting(now)

    def _stage_ack(self, replica_id: str, message: StageAck, now: float) -> None:
        record = self._requests.get(message.request_id)
        if record is None:
            return
        if message.error is not None:
            self._refuse_interaction(record, message.event_id, message.error)
            return
        ack = AckMessage(record.request_id, message.event_id, message.kind, message.result)
        self._emit(Deliver(ack))

    def _stage_released(self, replica_id: str, message: StageReleased, now: float) -> None:
        stage_id = self._stage_of(replica_id)
        for request_id in message.request_ids:
            self._forget_release(request_id, replica_id)
            record = self._requests.get(request_id)
            if record and record.stages[stage_id].state is StageState.RELEASING:
                self.pools[stage_id].release(request_id)
                self._start_stage(record, stage_id, now)
        self.supervisor.end_drained(self.pools[stage_id], now)
        self._start_waiting(now)

    # --- a request's way through the stages ------------------------------------------------------

    def _start_waiting(self, now: float) -> None:
        held_back: list[tuple[tuple[int, int], str]] = []
        while self._waiting and self._num_running < self.config.max_running:
            entry = heapq.heappop(self._waiting)
            record = self._requests.get(entry[1])
            if record is None or record.sort_key != entry[0]:
                continue  # ended while it waited
            if record.request_id in self._releasing:
                held_back.append(entry)  # an earlier request of this id is still being let go
                continue
            record.started_at = now
            self._num_running += 1
            self._start_stage(record, 0, now)
        for entry in held_back:
            heapq.heappush(self._waiting, entry)

    def _start_stage(self, record: RequestRecord, stage_id: int, now: float) -> None:
        progress = record.stages[stage_id]
        pool = self.pools[stage_id]
        replica = pool.bind(record.request_id, record.submission.data_parallel_rank)
        if replica is None:
            if progress.state is not StageState.UNBOUND:
                progress.state, progress.unbound_since = StageState.UNBOUND, now
            return
        if progress.count_attempt() > _MAX_ATTEMPTS:
            message = f"stage {pool.config.name!r} failed twice at this request"
            self._fail(record, "stage_failed", message)
            return
        self.counters.num_replays += progress.num_starts > 1
        progress.state = StageState.BOUND
        self._send_data(replica, record.stage_request(stage_id))
        for update in progress.inputs:
            self._send_data(replica, update)

    def _row(self, record: RequestRecord, stage_id: int, row: OutputRow, now: float) -> None:
        progress = record.stages[stage_id]
        if self.pipeline.stages[stage_id].engine_output_type == "audio":
            if row.start_sample != progress.next_sample:
                self._replay(record, stage_id, now)
                return
            progress.next_sample += row.num_samples
        if row.payload is not None:
            progress.units_out += 1
        if stage_id > 0:
            progress.checkpoint(row.units_done, row.done_sample)
            self._check_pending(record, stage_id)
        if row.finished:
            progress.state = StageState.FINISHED
            released = self.pools[stage_id].release(record.request_id)
            assert released is not None, "a row of a request that is not bound"
            self.supervisor.end_drained(self.pools[stage_id], now)
        self._pass_on(record, stage_id, row, now)

    def _pass_on(self, record: RequestRecord, stage_id: int, row: OutputRow, now: float) -> None:
        """Give what a row brought to the next stage and, if it was asked for, to the caller."""
        if stage_id < record.submission.final_stage_id and (
            row.payload is not None or row.finished
        ):
            self._append_input(record, stage_id + 1, row.payload or {}, final=row.finished, now=now)
        if stage_id not in record.submission.final_output_stage_ids:
            return
        if row.finished:
            record.open_outputs.discard(stage_id)
        ends = not record.open_outputs
        if row.payload is not None or ends:
            wait_s = (record.started_at or now) - record.arrived_at
            output = OutputMessage(
                record.request_id,
                stage_id,
                row.payload,
                row.start_sample,
                row.num_samples if row.payload is not None else 0,
                finished=ends,
                queue_wait_ms=wait_s * 1000,
            )
            if ends:
                self.counters.num_finished += 1
                self._end(record, output)
                return
            self._emit(Deliver(output))
        record.delivered_samples += row.num_samples
        self._check_buffered(record)

    def _append_input(
        self,
        record: RequestRecord,
        stage_id: int,
        payload: Payload,
        *,
        final: bool,
        now: float = 0.0,
    ) -> None:
        progress = record.stages[stage_id]
        update = progress.append_input(record.request_id, payload, final=final)
        if progress.state is StageState.IDLE:
            if stage_id > 0:
                self._start_stage(record, stage_id, now)
        elif progress.state is StageState.BOUND:
            replica = self.pools[stage_id].replica_of(record.request_id)
            assert replica is not None, "a bound stage has a replica"
            self._send_data(replica, update)
        self._check_pending(record, stage_id)

    def _replay(self, record: RequestRecord, stage_id: int, now: float) -> None:
        """Samples are missing or doubled: take the request back and run it again from there."""
        replica = self.pools[stage_id].replica_of(record.request_id)
        assert replica is not None, "a row of a request that is not bound"
        record.stages[stage_id].state = StageState.RELEASING
        self._send_control(replica, StageAbort([record.request_id]))
        self._releasing.setdefault(record.request_id, set()).add(replica.replica_id)

    # --- endings ---------------------------------------------------------------------------------

    def _fail(
        self, record: RequestRecord, code: str, message: str, param: str | None = None
    ) -> None:
        self.counters.num_failed += 1
        self._end(record, ErrorMessage(record.request_id, code, message, param))

    def _end(self, record: RequestRecord, terminal: OutputMessage | ErrorMessage) -> None:
        """Deliver the terminal message and let go of the request in every stage that has it."""
        del self._requests[record.request_id]
        self._num_running -= record.started_at is not None
        for pool in self.pools:
            replica = pool.release(record.request_id)
            if replica is not None:
                self._send_control(replica, StageAbort([record.request_id]))
                self._releasing.setdefault(record.request_id, set()).add(replica.replica_id)
        self._emit(Deliver(terminal))

    def _forget_release(self, request_id: str, replica_id: str) -> None:
        replicas = self._releasing.get(request_id)
        if replicas is None:
            return
        replicas.discard(replica_id)
        if not replicas:
            del self._releasing[request_id]
            self._answer_aborts()

    def _answer_aborts(self) -> None:
        for abort_id, pending in list(self._aborts.items()):
            pending &= self._releasing.keys()
            if not pending:
                del self._aborts[abort_id]
                self._emit(AnswerAbort(AbortedMessage(abort_id)))

    def _check_deadlines(self, record: RequestRecord, now: float) -> None:
        deadline = record.submission.deadline
        if deadline is not None and now >= deadline:
            self._fail(record, "deadline_exceeded", "the request ran out of time")
            return
        for pool, progress in zip(self.pools, record.stages, strict=False):
            if progress.state is not StageState.UNBOUND:
                continue
            failure = self.supervisor.health[pool.stage_id].failure
            waited_s = now - progress.unbound_since
            if failure is not None or waited_s > pool.config.replica_deadline_s:
                reason = failure or f"no replica of stage {pool.config.name!r} came back in time"
                self._fail(record, "unavailable", reason)
                return

    # --- pauses ----------------------------------------------------------------------------------

    def _check_buffered(self, record: RequestRecord) -> None:
        """Pause at the limit, go on at half of it: without the gap each chunk would toggle."""
        buffered = record.delivered_samples - record.consumed_samples
        for stage_id in record.submission.final_output_stage_ids:
            if buffered >= self._max_buffered_samples:
                self._set_pause(record, stage_id, PauseReason.CALLER, on=True)
            elif buffered <= self._max_buffered_samples // 2:
                self._set_pause(record, stage_id, PauseReason.CALLER, on=False)

    def _check_pending(self, record: RequestRecord, stage_id: int) -> None:
        if stage_id == 0:
            return
        limit = self.pipeline.stages[stage_id].max_pending_units
        num_pending = record.stages[stage_id].num_pending
        if num_pending >= limit:
            self._set_pause(record, stage_id - 1, PauseReason.DOWNSTREAM, on=True)
        elif num_pending <= limit // 2:
            self._set_pause(record, stage_id - 1, PauseReason.DOWNSTREAM, on=False)

    def _set_pause(
        self, record: RequestRecord, stage_id: int, reason: PauseReason, *, on: bool
    ) -> None:
        progress = record.stages[stage_id]
        if on == (reason in progress.pauses):
            return
        was_paused = bool(progress.pauses)
        progress.pauses ^= {reason}
        replica = self.pools[stage_id].replica_of(record.request_id)
        if replica is None or progress.state is not StageState.BOUND:
            return
        if bool(progress.pauses) != was_paused:
            kind = StagePause if on else StageResume
            self._send_control(replica, kind(record.request_id))

    # --- replicas that come and go ---------------------------------------------------------------

    def _on_ready(self, pool: StagePool, now: float) -> None:
        for record in sorted(self._requests.values(), key=lambda r: r.sort_key):
            stages = record.stages
            if pool.stage_id < len(stages) and (stages[pool.stage_id].state is StageState.UNBOUND):
                self._start_stage(record, pool.stage_id, now)

    def _on_lost(
        self, pool: StagePool, replica_id: str, request_ids: list[str], reason: str, now: float
    ) -> None:
        for request_id in request_ids:
            record = self._requests[request_id]
            record.stages[pool.stage_id].state = StageState.IDLE
            self._start_stage(record, pool.stage_id, now)
        for request_id in [r for r, replicas in self._releasing.items() if replica_id in replicas]:
            self._forget_release(request_id, replica_id)
        self._start_waiting(now)

    # --- small things ----------------------------------------------------------------------------

    def _refuse_interaction(self, record: RequestRecord, event_id: str, reason: str) -> None:
        error = ErrorMessage(
            record.request_id, "invalid_value", reason, fatal=False, event_id=event_id
        )
        self._emit(Deliver(error))

    def _bound_record(
        self, replica_id: str, stage_id: int, request_id: str
    ) -> RequestRecord | None:
        """The record, if the request runs on this replica now; what is late is dropped."""
        record = self._requests.get(request_id)
        replica = self.pools[stage_id].replica_of(request_id)
        if record is None or replica is None or replica.replica_id != replica_id:
            return None
        return record if record.stages[stage_id].state is StageState.BOUND else None

    def _stage_of(self, replica_id: str) -> int:
        found = self.supervisor.find(replica_id)
        assert found is not None, "messages of evicted replicas are not handled"
        return found[0].stage_id

    def _send_data(self, replica: Replica, message: ToReplica) -> None:
        replica.num_data_sent += 1
        self._emit(SendData(replica.replica_id, message))

    def _send_control(
        self,
        replica: Replica,
        message: StageAbort | StagePause | StageResume | StageInteraction,
    ) -> None:
        message.after_seq = replica.num_data_sent
        self._emit(SendControl(replica.replica_id, message))

    def _emit(self, effect: Effect) -> None:
        self._effects.append(effect)

    def take_effects(self) -> list[Effect]:
        """The effects asked for since they were last taken."""
        effects, self._effects = self._effects, []
        return effects
