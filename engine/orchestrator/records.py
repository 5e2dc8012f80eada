"""What the orchestrator knows of a request: enough to route it, and to replay it elsewhere."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, TypeAlias

from engine.messages import (
    Fingerprint,
    OutputRow,
    Payload,
    StageInteraction,
    StageRequest,
    StageSubmissionMessage,
    StageUpdate,
)
from engine.orchestrator.groups import Companion, Group
from engine.trace import log_fields

Input: TypeAlias = StageUpdate | StageInteraction


# What a client may send ahead of the stage, one request: text that is written token by token for
# ten hours of speech, or half an hour of live audio. A paused request takes no more than that.
MAX_INPUTS = 100_000
MAX_INPUT_BYTES = 128 * 1024 * 1024
JOURNAL_IS_FULL = (
    f"has as much input waiting as it may: {MAX_INPUTS} pieces, or {MAX_INPUT_BYTES} bytes; wait "
    "for its output before more is sent"
)


class StageState(Enum):
    IDLE = auto()  # nothing sent to it yet
    UNBOUND = auto()  # wants a replica and waits for one
    BOUND = auto()  # runs on a replica
    RELEASING = auto()  # the replica was told to let go; goes on when it has
    FINISHED = auto()


@dataclass(slots=True)
class StageProgress:
    """How far one stage of a request is. Positions are samples for audio, units for the rest.

    ``inputs`` is the journal: the inputs from ``units_done`` on, which a replay sends again. Of a
    later stage it is bounded by the credit of the stage before; of stage 0, whose inputs are the
    client's, by ``is_full``. Of a language model's own tokens only those of the passage that is
    open are kept.

    The stage has sent ``num_sent`` and may send ``credit``; ``num_passed`` of it went on to the
    next stage, in which ``num_waiting`` (kept there) waits, and ``num_taken`` was taken by the
    caller. All of these are samples of audio, or else payloads.
    """

    num_inputs: int = 0
    state: StageState = StageState.IDLE
    unbound_since: float = 0.0
    inputs: deque[Input] = field(default_factory=deque)
    sizes: deque[int] = field(default_factory=deque)  # of the inputs
    num_bytes: int = 0  # of the inputs
    num_waiting: int = 0
    overrides: dict[str, Any] = field(default_factory=dict)
    units_done: int = 0
    done_position: int = 0
    checkpoint: dict[str, Any] | None = None
    position: int = 0
    num_sent: int = 0
    num_passed: int = 0
    num_taken: int = 0
    credit: int = 0
    cut_position: int = 0
    first_passage: int = 0
    open_passage: int = 0
    open_tokens: list[int] = field(default_factory=list)
    has_finish_row: bool = False
    num_starts: int = 0
    num_gaps: int = 0
    gap_position: int = -1
    is_suspect: bool = False
    fingerprint: Fingerprint | None = None

    @property
    def is_out_of_credit(self) -> bool:
        """It waits for whoever takes its output."""
        return self.num_sent >= self.credit

    @property
    def may_be_in_step(self) -> bool:
        """It has something to do, and credit for it."""
        return self.units_done < self.num_inputs and not self.is_out_of_credit

    @property
    def is_full(self) -> bool:
        """The journal holds all that it may of a client's inputs."""
        return len(self.inputs) >= MAX_INPUTS or self.num_bytes >= MAX_INPUT_BYTES

    @property
    def ends_with_flush(self) -> bool:
        """Another flush would do nothing more."""
        last = self.inputs[-1] if self.inputs else None
        return isinstance(last, StageInteraction) and last.kind == "flush"

    def append_update(
        self, request_id: str, payload: Payload, *, final: bool, size: int = 0
    ) -> StageUpdate:
        """``size``: what the stage before used of its credit for this input."""
        update = StageUpdate(request_id, self.num_inputs, payload, final=final)
        self._append(update, size)
        return update

    def append_interaction(
        self, request_id: str, kind: str, arguments: dict[str, Any]
    ) -> StageInteraction:
        interaction = StageInteraction(request_id, self.num_inputs, kind, arguments)
        self._append(interaction, 0)
        return interaction

    def take_row(self, row: OutputRow, size: int) -> bool:
        """A row that follows on what came before: note how far the stage is, and what it said.

        Whether a replay would start further on now. ``size`` is what it uses of the credit.
        """
        self.position += row.num_samples
        self.num_sent += size
        self.has_finish_row = row.finished
        self.open_tokens += row.tokens
        if row.ends_passage:
            self.open_tokens.clear()
            self.open_passage += 1
        return self.note_checkpoint(row.units_done, row.done_position, row.checkpoint)

    def note_checkpoint(
        self, units_done: int, done_position: int, checkpoint: dict[str, Any] | None = None
    ) -> bool:
        """A replay may start there; whether that is further on than before.

        Inputs before ``units_done`` are not needed for it. What they changed of the voice stays in
        force. Without ``checkpoint`` a replay starts with input ``units_done`` and nowhere else.
        """
        if checkpoint is None:
            is_further = units_done > self.units_done
        else:
            is_further = (units_done, done_position) > (self.units_done, self.done_position)
        if not is_further:
            return False
        self.units_done, self.done_position = units_done, done_position
        self.checkpoint, self.first_passage = checkpoint, self.open_passage
        while self.inputs and self.inputs[0].unit < units_done:
            head = self.inputs[0]
            if isinstance(head, StageUpdate) and head.final:
                break  # a replay must learn that nothing follows
            self._keep_override(head)
            self.num_bytes -= _num_bytes(head)
            self.inputs.popleft()
            self.num_waiting -= self.sizes.popleft()
        return True

    def cut(self) -> None:
        """Drop what has not become output: an interrupt. A restart begins with what comes next."""
        for item in self.inputs:
            self._keep_override(item)
        self.inputs.clear()
        self.sizes.clear()
        self.num_waiting = self.num_bytes = 0
        self.units_done, self.done_position = self.num_inputs, self.position
        self.checkpoint = None
        self.cut_position = self.position
        self.num_passed = self.num_taken = self.num_sent
        self.open_passage += bool(self.open_tokens)
        self.open_tokens.clear()
        self.first_passage = self.open_passage

    def count_gap(self) -> int:
        """One more gap in the output; counted anew wherever output came after the last one."""
        self.num_gaps = self.num_gaps + 1 if self.position == self.gap_position else 1
        self.gap_position = self.position
        return self.num_gaps

    def _append(self, item: Input, size: int) -> None:
        self.num_inputs += 1
        self.inputs.append(item)
        self.num_bytes += _num_bytes(item)
        self.sizes.append(size)
        self.num_waiting += size

    def _keep_override(self, item: Input) -> None:
        if isinstance(item, StageInteraction) and item.kind == "update":
            self.overrides |= item.arguments


@dataclass(slots=True)
class RequestRecord:
    """A request that the orchestrator has taken on and not yet ended."""

    submission: StageSubmissionMessage
    stages: list[StageProgress]
    arrived_at: float
    order: int
    group: Group | None = None
    started_at: float | None = None
    open_outputs: set[int] = field(default_factory=set)
    input_closed: bool = False
    has_ended: bool = False
    is_paused: bool = False
    delivered_samples: int = 0

    @property
    def request_id(self) -> str:
        return self.submission.request_id

    @property
    def sort_key(self) -> tuple[int, int]:
        """Lower priority values run first (as in vLLM), then first come, first served."""
        return (self.submission.priority, self.order)

    @property
    def log_fields(self) -> dict[str, str]:
        return log_fields(self.request_id, self.submission.trace_headers)

    @property
    def queue_wait_ms(self) -> float:
        """From the caller's arrival time, input processing included, to the start of stage 0."""
        before_ms = (self.submission.enqueue_ts - self.submission.request_timestamp) * 1000
        in_line_s = (self.started_at or self.arrived_at) - self.arrived_at
        return max(0.0, before_ms) + in_line_s * 1000

    def member_ids(self, stage_id: int) -> list[str]:
        """The ids under which a stage knows the request: in stage 0, its whole group."""
        if stage_id == 0 and self.group is not None:
            return [self.request_id, *self.group.companions]
        return [self.request_id]

    def stage_requests(self, stage_id: int) -> list[StageRequest]:
        """The messages that start, or restart, a stage of this request and of its group."""
        progress = self.stages[stage_id]
        submission = self.submission
        is_first = stage_id == 0
        prompt = submission.prompt if is_first else submission.original_prompt
        request = StageRequest(
            request_id=self.request_id,
            prompt=prompt | progress.overrides,
            sampling=submission.sampling_params_list[stage_id],
            seed=submission.seed,
            priority=submission.priority,
            resumable=submission.resumable or not is_first,
            trace_headers=submission.trace_headers,
            first_unit=progress.units_done,
            start_position=progress.done_position,
            skip_position=progress.position,
            cut_position=progress.cut_position,
            checkpoint=progress.checkpoint,
            credit=progress.credit,
            num_sent=progress.num_sent,
            paused=self.is_paused,
            suspect=progress.is_suspect,
            is_final_stage=stage_id == submission.final_stage_id,
            lora=submission.lora if is_first else None,
            first_passage=progress.first_passage,
            open_passage=progress.open_passage,
            prefix_tokens=list(progress.open_tokens),
        )
        if not is_first or self.group is None:
            return [request]
        request.group_id, request.group_size = self.request_id, self.group.size
        companions = self.group.companions.values()
        return [request, *(self._companion_request(c) for c in companions)]

    def _companion_request(self, companion: Companion) -> StageRequest:
        assert self.group is not None
        return StageRequest(
            request_id=companion.spec.request_id,
            prompt=companion.spec.prompt,
            sampling=companion.spec.sampling_params_list[0],
            seed=self.submission.seed,
            priority=self.submission.priority,
            group_id=self.request_id,
            group_size=self.group.size,
            role=companion.spec.role,
            lora=self.submission.lora,
            trace_headers=self.submission.trace_headers,
            skip_position=companion.position,
            suspect=self.stages[0].is_suspect,
        )


def _num_bytes(item: Input) -> int:
    """About what an input's text and arrays take."""
    values = item.payload if isinstance(item, StageUpdate) else item.arguments
    return sum(
        len(value) if isinstance(value, str | bytes) else getattr(value, "nbytes", 0)
        for value in values.values()
    )


def new_record(
    submission: StageSubmissionMessage, now: float, order: int, *, forwards_companions: bool
) -> RequestRecord:
    """A record with one progress per stage that the request passes through.

    The prompt is input 0 of stage 0; later stages get all their inputs from the stage before.
    """
    stages = [StageProgress(num_inputs=int(i == 0)) for i in range(submission.final_stage_id + 1)]
    group = None
    if submission.companions:
        group = Group(submission.companions, forwards_payloads=forwards_companions)
    return RequestRecord(
        submission=submission,
        stages=stages,
        arrived_at=now,
        order=order,
        group=group,
        open_outputs=set(submission.final_output_stage_ids),
        input_closed=not submission.resumable,
    )
