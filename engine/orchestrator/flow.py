"""A request's way through the stages: start, rows, forwarding, pauses, replays, its end."""

from __future__ import annotations

import logging
from collections.abc import Callable

from engine.messages import (
    ErrorMessage,
    OutputMessage,
    OutputRow,
    Payload,
    StageAbort,
    StageCredit,
    StagePause,
    StageResume,
    ToReplica,
    output_size,
)
from engine.orchestrator.counters import CoreCounters
from engine.orchestrator.credit import CreditPolicy
from engine.orchestrator.effects import Deliver, Effect, SendControl, SendData
from engine.orchestrator.groups import BrokenGroupError
from engine.orchestrator.records import JOURNAL_IS_FULL, Input, RequestRecord, StageState
from engine.orchestrator.releases import Releases
from engine.orchestrator.supervisor import ReplicaSupervisor
from engine.pipeline import PipelineConfig
from engine.stage_pool import Replica, StagePool

logger = logging.getLogger("voxloom.engine.orchestrator")

# Payloads that are dropped this often at the same place will be dropped there for ever.
_MAX_GAPS = 2


class RequestFlow:
    """Moves single requests. ``forget`` is called once for a request, when it ends."""

    def __init__(
        self,
        pipeline: PipelineConfig,
        pools: list[StagePool],
        supervisor: ReplicaSupervisor,
        releases: Releases,
        counters: CoreCounters,
        credit: CreditPolicy,
        *,
        emit: Callable[[Effect], None],
        forget: Callable[[RequestRecord], None],
    ) -> None:
        self._pipeline = pipeline
        self._pools = pools
        self._supervisor = supervisor
        self._releases = releases
        self._counters = counters
        self._credit = credit
        self._emit = emit
        self._forget = forget

    # --- starting and restarting a stage ---------------------------------------------------------

    def start(self, record: RequestRecord, now: float) -> None:
        """Begin a request at its first stage. To that stage all before it have ended at once."""
        first = record.submission.first_stage_id
        for progress in record.stages[:first]:
            progress.state = StageState.FINISHED
        if first == 0:
            self.start_stage(record, 0, now)
        else:
            self.append_update(record, first, {}, now, final=True)

    def start_stage(self, record: RequestRecord, stage_id: int, now: float) -> None:
        """Bind a stage and send it the request with its journal; wait if there is no replica."""
        progress = record.stages[stage_id]
        pool = self._pools[stage_id]
        rank = record.submission.data_parallel_rank if stage_id == 0 else None
        if rank is not None and not 0 <= rank < pool.num_wanted:
            reason = f"data_parallel_rank must be below {pool.num_wanted}, got {rank}"
            self.fail(record, "invalid_value", reason, "data_parallel_rank")
            return
        replica = pool.bind(record.request_id, rank, like=progress.fingerprint)
        if replica is None:
            if progress.state is not StageState.UNBOUND:
                progress.state, progress.unbound_since = StageState.UNBOUND, now
            return
        progress.num_starts += 1
        if progress.fingerprint not in (None, replica.fingerprint):
            logger.warning(
                "a request goes on on %s, whose bytes may differ: %s after %s",
                replica.replica_id,
                replica.fingerprint,
                progress.fingerprint,
                extra=record.log_fields,
            )
        progress.fingerprint = replica.fingerprint
        self._counters.num_replays += progress.num_starts > 1
        if progress.is_suspect:
            name = replica.replica_id
            logger.info("a request is run again, on %s", name, extra=record.log_fields)
        progress.state, progress.has_finish_row = StageState.BOUND, False
        progress.credit = self._credit.total(record, stage_id)
        if stage_id == 0 and record.group is not None:
            record.group.restart()
        for request in record.stage_requests(stage_id):
            self._send_data(replica, request)
        for item in progress.inputs:
            self._send_data(replica, item)

    def replica_ready(self, record: RequestRecord, stage_id: int, now: float) -> None:
        if stage_id < len(record.stages) and record.stages[stage_id].state is StageState.UNBOUND:
            self.start_stage(record, stage_id, now)

    def replica_lost(
        self, record: RequestRecord, stage_id: int, now: float, *, on_trial: str | None
    ) -> None:
        """Run the stage again elsewhere; the pool has undone the binding.

        The request that was being tried alone is to blame: it has now been with a dying replica
        twice. If none was, all that may have been in a step there are suspects; trials cost time,
        and whatever ends the replica in one is laid to the request.
        """
        progress = record.stages[stage_id]
        progress.state = StageState.IDLE
        if on_trial == record.request_id:
            name = self._pools[stage_id].config.name
            self.fail(record, "stage_failed", f"stage {name!r} failed twice at this request")
            return
        progress.is_suspect |= on_trial is None and progress.may_be_in_step
        self._restart(record, stage_id, now)

    def step_failed(self, record: RequestRecord, stage_id: int, reason: str, now: float) -> None:
        """A step with others failed, and the replica has let go: try the request alone."""
        progress, pool = record.stages[stage_id], self._pools[stage_id]
        if progress.count_gap() > _MAX_GAPS:
            self.fail(record, "stage_failed", f"steps of stage {pool.config.name!r} fail: {reason}")
            return
        pool.release(record.request_id)
        progress.state, progress.is_suspect = StageState.IDLE, True
        self._restart(record, stage_id, now)

    def released(self, record: RequestRecord, stage_id: int, now: float) -> None:
        """The replica has let go of a request that goes on."""
        progress = record.stages[stage_id]
        if progress.state is StageState.RELEASING:
            self._pools[stage_id].release(record.request_id)
            progress.state = StageState.IDLE
            self._restart(record, stage_id, now)

    def check_unbound(self, record: RequestRecord, now: float) -> None:
        """Fail a request that has waited too long for a replica, or waits in vain."""
        for pool, progress in zip(self._pools, record.stages, strict=False):
            if progress.state is not StageState.UNBOUND:
                continue
            failure = self._supervisor.health[pool.stage_id].failure
            if failure or now - progress.unbound_since > pool.config.replica_deadline_s:
                reason = failure or f"no replica of stage {pool.config.name!r} came back in time"
                self.fail(record, "unavailable", reason)
                return

    def _restart(self, record: RequestRecord, stage_id: int, now: float) -> None:
        """A later stage without input has nothing to do yet; it starts with its next input."""
        if stage_id == 0 or record.stages[stage_id].inputs:
            self.start_stage(record, stage_id, now)

    # --- rows ------------------------------------------------------------------------------------

    def row(self, record: RequestRecord, stage_id: int, row: OutputRow, now: float) -> None:
        """What a step did for a request."""
        progress = record.stages[stage_id]
        if progress.has_finish_row:
            return  # said twice
        if row.start_sample != progress.position:
            self._replay_gap(record, stage_id)
            return
        is_grouped = stage_id == 0 and record.group is not None
        if is_grouped:
            row.checkpoint = None  # a replay steps the whole group from its start
        is_further = progress.take_row(row, self._size(stage_id, row))
        if is_further and stage_id > 0:
            self._grant(record, stage_id - 1)
        if is_grouped:
            assert record.group is not None
            record.group.take_parent(row, now)
            self._pass_on_group(record, now)
        else:
            self._complete_row(record, stage_id, row, now)
        if progress.is_out_of_credit and not record.has_ended:
            self._grant(record, stage_id)

    def companion_row(self, record: RequestRecord, row: OutputRow, now: float) -> None:
        """What a step did for a companion: never the client's business, only its parent's."""
        assert record.group is not None
        companion = record.group.companions[row.request_id]
        if companion.is_finished:
            return
        if row.start_sample != companion.position:
            self._replay_gap(record, 0)
            return
        record.group.take_companion(companion, row, now)
        self._pass_on_group(record, now)

    def _pass_on_group(self, record: RequestRecord, now: float) -> None:
        assert record.group is not None
        try:
            rows = record.group.ready_rows()
        except BrokenGroupError as error:
            self.fail(record, "stage_failed", f"its CFG companion {str(error)!r} ended too early")
            return
        for row in rows:
            if not record.has_ended:
                self._complete_row(record, 0, row, now)

    def _complete_row(
        self, record: RequestRecord, stage_id: int, row: OutputRow, now: float
    ) -> None:
        size = self._size(stage_id, row)
        record.stages[stage_id].num_passed += size
        if row.finished:
            record.stages[stage_id].state = StageState.FINISHED
            self._pools[stage_id].release(record.request_id)
            self._supervisor.end_drained(self._pools[stage_id], now)
        is_last = stage_id == record.submission.final_stage_id
        if not is_last and (row.payload is not None or row.finished):
            self.append_update(
                record,
                stage_id + 1,
                row.payload or {},
                now,
                final=row.finished,
                size=size,
            )
        if stage_id in record.submission.final_output_stage_ids:
            self._output(record, stage_id, row, now)

    def _output(self, record: RequestRecord, stage_id: int, row: OutputRow, now: float) -> None:
        """Deliver what a row brought; the request ends with its last output stage."""
        if row.finished:
            record.open_outputs.discard(stage_id)
        ends = not record.open_outputs
        if row.payload is None and not ends:
            return
        output = OutputMessage(
            record.request_id,
            stage_id,
            row.payload,
            row.start_sample,
            row.num_samples,
            finished=ends,
            queue_wait_ms=record.queue_wait_ms,
            preprocess_ms=record.submission.preprocess_ms,
        )
        if ends:
            self._counters.num_finished += 1
            self.end(record, output)
            return
        self._emit(Deliver(output))
        if self._pipeline.stages[stage_id].engine_output_type == "audio":
            record.delivered_samples += row.num_samples

    def _replay_gap(self, record: RequestRecord, stage_id: int) -> None:
        """A payload was dropped or doubled: run the request again from where it is."""
        if record.stages[stage_id].count_gap() > _MAX_GAPS:
            name = self._pools[stage_id].config.name
            self.fail(record, "stage_failed", f"stage {name!r} keeps losing output")
            return
        self.take_back(record, stage_id)

    def take_back(self, record: RequestRecord, stage_id: int) -> None:
        """Have the replica let go of a request that goes on; it restarts when it has."""
        replica = self._pools[stage_id].replica_of(record.request_id)
        assert replica is not None, "a bound stage has a replica"
        record.stages[stage_id].state = StageState.RELEASING
        self._let_go(record, stage_id, replica)

    # --- inputs ----------------------------------------------------------------------------------

    def append_update(
        self,
        record: RequestRecord,
        stage_id: int,
        payload: Payload,
        now: float,
        *,
        final: bool,
        size: int = 0,
    ) -> None:
        """One more input of a stage: a segment of text, or a unit of the stage before."""
        if stage_id == 0 and record.stages[0].is_full:
            self.fail(record, "invalid_value", f"the request {JOURNAL_IS_FULL}", "text")
            return
        update = record.stages[stage_id].append_update(
            record.request_id, payload, final=final, size=size
        )
        self.send_input(record, stage_id, update, now)

    def send_input(self, record: RequestRecord, stage_id: int, item: Input, now: float) -> None:
        """Send an input on, if the stage runs; else the journal keeps it for its start."""
        progress = record.stages[stage_id]
        if progress.state is StageState.BOUND:
            replica = self._pools[stage_id].replica_of(record.request_id)
            assert replica is not None, "a bound stage has a replica"
            self._send_data(replica, item)
        elif progress.state is StageState.IDLE and stage_id > 0:
            self.start_stage(record, stage_id, now)

    # --- endings ---------------------------------------------------------------------------------

    def fail(
        self, record: RequestRecord, code: str, message: str, param: str | None = None
    ) -> None:
        self._counters.num_failed += 1
        logger.info("a request failed: %s: %s", code, message, extra=record.log_fields)
        self.end(record, ErrorMessage(record.request_id, code, message, param))

    def end(self, record: RequestRecord, terminal: OutputMessage | ErrorMessage) -> None:
        """Deliver the terminal message and let go of the request in every stage that has it."""
        record.has_ended = True
        for stage_id in range(len(record.stages)):
            replica = self._pools[stage_id].release(record.request_id)
            if replica is not None:
                self._let_go(record, stage_id, replica)
        self._forget(record)
        self._emit(Deliver(terminal))

    def _let_go(self, record: RequestRecord, stage_id: int, replica: Replica) -> None:
        member_ids = record.member_ids(stage_id)
        self._send_control(replica, StageAbort(member_ids))
        for member_id in member_ids:
            self._releases.expect(member_id, replica.replica_id)

    # --- credit and pauses -----------------------------------------------------------------------

    def consumed(self, record: RequestRecord, stage_id: int, num_taken: int) -> None:
        """The caller has taken so much of a stage's output in all."""
        progress = record.stages[stage_id]
        progress.num_taken = max(progress.num_taken, num_taken)
        self._grant(record, stage_id)

    def _grant(self, record: RequestRecord, stage_id: int) -> None:
        """Let a stage go on, if there is room for more of its output."""
        if record.stages[stage_id].state is not StageState.BOUND:
            return  # its start will say how far it may go
        credit = self._credit.grant(record, stage_id)
        if credit is not None:
            replica = self._pools[stage_id].replica_of(record.request_id)
            assert replica is not None, "a bound stage has a replica"
            self._send_control(replica, StageCredit(record.request_id, credit))

    def _size(self, stage_id: int, row: OutputRow) -> int:
        is_audio = self._pipeline.stages[stage_id].engine_output_type == "audio"
        return output_size(is_audio, row.payload, row.num_samples)

    def set_paused(self, record: RequestRecord, is_paused: bool) -> None:
        """Hold every stage of the request, or let them go on."""
        if is_paused == record.is_paused:
            return
        record.is_paused = is_paused
        kind = StagePause if is_paused else StageResume
        for stage_id, progress in enumerate(record.stages):
            replica = self._pools[stage_id].replica_of(record.request_id)
            if replica is not None and progress.state is StageState.BOUND:
                self._send_control(replica, kind(record.request_id))

    # --- sending ---------------------------------------------------------------------------------

    def _send_data(self, replica: Replica, message: ToReplica) -> None:
        replica.num_data_sent += 1
        self._emit(SendData(replica.replica_id, message))

    def _send_control(
        self, replica: Replica, message: StageAbort | StagePause | StageResume | StageCredit
    ) -> None:
        message.after_seq = replica.num_data_sent
        self._emit(SendControl(replica.replica_id, message))
