"""What the orchestrator knows of a request: enough to route it, and to replay it elsewhere."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum, auto

from engine.messages import Payload, StageRequest, StageSubmissionMessage, StageUpdate


class StageState(Enum):
    IDLE = auto()  # nothing sent to it yet
    UNBOUND = auto()  # wants a replica and waits for one
    BOUND = auto()  # runs on a replica
    RELEASING = auto()  # the replica was told to let go; replayed when it has
    FINISHED = auto()


class PauseReason(Enum):
    CALLER = auto()  # the caller does not read
    DOWNSTREAM = auto()  # the next stage has enough units waiting
    INTERACTION = auto()  # the client asked for a pause


@dataclass(slots=True)
class StageProgress:
    """How far one stage of a request is.

    ``inputs`` is the journal: the input units from ``units_done`` on, which a replay sends again.
    It is bounded because the stage before is paused at ``max_pending_units``.
    """

    state: StageState = StageState.IDLE
    unbound_since: float = 0.0
    inputs: deque[StageUpdate] = field(default_factory=deque)
    num_inputs: int = 0
    units_done: int = 0
    done_sample: int = 0
    next_sample: int = 0
    units_out: int = 0
    num_starts: int = 0
    num_attempts: int = 0
    attempt_mark: tuple[int, int] = (-1, -1)
    pauses: set[PauseReason] = field(default_factory=set)

    @property
    def num_pending(self) -> int:
        return len(self.inputs)

    def append_input(self, request_id: str, payload: Payload, *, final: bool) -> StageUpdate:
        update = StageUpdate(request_id, self.num_inputs, payload, final=final)
        self.num_inputs += 1
        self.inputs.append(update)
        return update

    def checkpoint(self, units_done: int, done_sample: int) -> None:
        """The first ``units_done`` input units need not be replayed any more."""
        if units_done <= self.units_done:
            return
        self.units_done, self.done_sample = units_done, done_sample
        while self.inputs and self.inputs[0].unit < units_done and not self.inputs[0].final:
            self.inputs.popleft()

    def count_attempt(self) -> int:
        """One more start; the count restarts whenever output came out since the last one."""
        self.num_starts += 1
        mark = (self.next_sample, self.units_out)
        self.num_attempts = self.num_attempts + 1 if mark == self.attempt_mark else 1
        self.attempt_mark = mark
        return self.num_attempts


@dataclass(slots=True)
class RequestRecord:
    """A request that the orchestrator has taken on and not yet ended."""

    submission: StageSubmissionMessage
    stages: list[StageProgress]
    arrived_at: float
    order: int
    started_at: float | None = None
    open_outputs: set[int] = field(default_factory=set)
    input_closed: bool = False
    delivered_samples: int = 0
    consumed_samples: int = 0

    @property
    def request_id(self) -> str:
        return self.submission.request_id

    @property
    def sort_key(self) -> tuple[int, int]:
        """Lower priority values run first (as in vLLM), then first come, first served."""
        return (self.submission.priority, self.order)

    def stage_request(self, stage_id: int) -> StageRequest:
        """The message that starts, or restarts, a stage of this request."""
        progress = self.stages[stage_id]
        submission = self.submission
        return StageRequest(
            request_id=self.request_id,
            prompt=submission.prompt if stage_id == 0 else submission.original_prompt,
            sampling=submission.sampling_params_list[stage_id],
            seed=submission.seed,
            priority=submission.priority,
            resumable=submission.resumable if stage_id == 0 else True,
            trace_headers=submission.trace_headers,
            first_unit=progress.units_done,
            start_sample=progress.done_sample,
            skip_samples=progress.next_sample,
            skip_units=progress.units_out,
            paused=bool(progress.pauses),
        )


def new_record(submission: StageSubmissionMessage, now: float, order: int) -> RequestRecord:
    """A record with one progress per stage that the request passes through."""
    return RequestRecord(
        submission=submission,
        stages=[StageProgress() for _ in range(submission.final_stage_id + 1)],
        arrived_at=now,
        order=order,
        open_outputs=set(submission.final_output_stage_ids),
        input_closed=not submission.resumable,
    )
