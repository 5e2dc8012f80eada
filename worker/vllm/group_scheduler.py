"""vLLM's scheduler, with groups: guided rows that are admitted, run, preempted and ended as one.

    first row ──> arriving ──second row──> waiting ──fits whole──> running ──both stop──> gone
                                              ▲                       │
                                              └──── preempted whole ──┘

A unit is a row by itself, or a group. vLLM's own ``schedule`` decides row by row; so this one
offers it no more units than fit whole into the step's tokens, seats and blocks, and makes room for
the running ones before, whole units at a time: vLLM's own preemption then never happens. Prompts
are never split over steps (chunked prefill is off), whatever a prefix cache holds of them. So the
rows of a group are prefilled in the same step and have, from then on, outputs of equal length.

Only the first row of a group is ever in the waiting queue; its partner goes where it goes.

A row that is gone on with finds its grammar where its tokens have led it.

A row marked ``alone`` runs with nothing beside it until its unit has a first token: if this process
dies then, it is known why.
"""

from __future__ import annotations

import logging
import os
import time
from typing import Any

from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.core.sched.request_queue import create_request_queue
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.request import Request, RequestStatus

from worker.lifeline import die_with_parent
from worker.vllm.cache_layout import CacheLayout
from worker.vllm.row_marks import GROUP_SIZE, GroupMark, is_alone, read_group, read_resumed

logger = logging.getLogger("voxloom.worker.vllm.group_scheduler")


class GroupScheduler(Scheduler):
    """For ``scheduler_cls``. Needs chunked prefill and asynchronous scheduling to be off."""

    waiting: Any
    running: list[Request]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # This is the first of our code in vLLM's own process, which would outlive a killed worker.
        die_with_parent(os.getppid())
        if self.scheduler_config.enable_chunked_prefill or self.scheduler_config.async_scheduling:
            raise ValueError("groups need enable_chunked_prefill and async_scheduling to be off")
        self._groups: dict[str, list[Request]] = {}
        self._alone: list[str] = []
        self._layout = CacheLayout.of(self.kv_cache_config)

    # --- arrival and end -------------------------------------------------------------------------

    def add_request(self, request: Request) -> None:
        super().add_request(request)
        if is_alone(request.sampling_params.extra_args):
            self._alone.append(request.request_id)

    # vLLM's name; where every way into the waiting queue but a preemption's goes through.
    def _enqueue_waiting_request(self, request: Request) -> None:
        mark = _mark(request)
        if mark is None:
            super()._enqueue_waiting_request(request)
            return
        group = self._groups.setdefault(mark.group_id, [])
        group.append(request)
        if len(group) == GROUP_SIZE:
            group.sort(key=_row_number)
            super()._enqueue_waiting_request(group[0])

    def finish_requests(self, request_ids: Any, finished_status: RequestStatus) -> list[Request]:
        """A row's partner ends with it."""
        if isinstance(request_ids, str):
            request_ids = (request_ids,)
        if request_ids is not None:
            rows = [self.requests[r] for r in request_ids if r in self.requests]
            request_ids = {row.request_id for first in rows for row in self._unit_of(first)}
        finished: list[Request] = super().finish_requests(request_ids, finished_status)
        return finished

    def _free_request(self, request: Request, delay_free_blocks: bool = False) -> Any:
        mark = _mark(request)
        if mark is not None:
            group = self._groups.get(mark.group_id, [])
            if request in group:
                group.remove(request)
            if not group:
                self._groups.pop(mark.group_id, None)
        if request.request_id in self._alone:
            self._alone.remove(request.request_id)
        return super()._free_request(request, delay_free_blocks=delay_free_blocks)

    # vLLM's name; a row whose grammar is ready passes here once.
    def _handle_blocked_waiting_request(self, request: Request) -> bool:
        is_forming = request.status is RequestStatus.WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR
        may_go_on: bool = super()._handle_blocked_waiting_request(request)
        if is_forming and may_go_on and not _resume_grammar(request):
            logger.error("%s: its grammar has no place for its tokens", request.request_id)
            # vLLM's way to end a row with an error.
            self.grammar_compile_error_reqs.add(request.request_id)
            return False
        return may_go_on

    # --- a step ----------------------------------------------------------------------------------

    def schedule(self, throttle_prefills: bool = False) -> SchedulerOutput:
        line, held = self.waiting, list[Request]()
        trial = self._trial_unit()
        if trial is None:
            self._make_room()
            # A unit that was just preempted would come back at once, into the same lack of room.
            offered = [] if self.reset_preempted_req_ids else self._admissible()
        else:
            held, offered = self._step_aside_for(trial), trial
        self.waiting = create_request_queue(self.policy)
        for row in offered:
            self.waiting.add_request(row)
        try:
            output: SchedulerOutput = super().schedule(throttle_prefills)
            return output
        finally:
            left, self.waiting = list(self.waiting), line
            self._put_back(left)
            self.running.extend(held)

    def update_from_output(
        self, scheduler_output: SchedulerOutput, model_runner_output: Any
    ) -> dict[int, Any]:
        """Fail each group whose rows did not run together, or took different tokens."""
        tokens, index = model_runner_output.sampled_token_ids, model_runner_output.req_id_to_index
        for group_id, reason in self._broken(scheduler_output, tokens, index):
            logger.error("group %s: %s", group_id, reason)
            for row in self._groups[group_id]:
                if row.request_id in index and tokens:
                    tokens[index[row.request_id]] = []
                # vLLM's way to end a row with an error in the step that is being evaluated.
                self.grammar_compile_error_reqs.add(row.request_id)
        outputs: dict[int, Any] = super().update_from_output(scheduler_output, model_runner_output)
        return outputs

    def _broken(
        self, scheduler_output: SchedulerOutput, tokens: Any, index: dict[str, int]
    ) -> list[tuple[str, str]]:
        broken = []
        scheduled = scheduler_output.num_scheduled_tokens
        for group_id, group in self._groups.items():
            ran = [row.request_id for row in group if row.request_id in scheduled]
            if ran and len(ran) != GROUP_SIZE:
                broken.append((group_id, "a row ran without its partner"))
            elif ran and tokens and tokens[index[ran[0]]] != tokens[index[ran[1]]]:
                broken.append((group_id, "its rows took different tokens"))
        return broken

    # --- room ------------------------------------------------------------------------------------

    def _admissible(self) -> list[Request]:
        """The rows of the units at the head of the line that fit whole.

        The first that does not fit holds the line, so that none waits for ever. What a prefix
        cache holds of a prompt is not counted: it may be gone when the step is made.
        """
        rows = list[Request]()
        if not self.waiting:
            return rows
        num_tokens = len(self.running)  # one each
        num_blocks = self._growth()
        while self.waiting:
            unit = self._unit_of(self.waiting.peek_request())
            num_tokens += sum(row.num_tokens for row in unit)
            num_blocks += sum(self._layout.num_blocks(row.num_tokens) for row in unit)
            if (
                len(self.running) + len(rows) + len(unit) > self.max_num_active_reqs
                or num_tokens > self.max_num_scheduled_tokens
                or num_blocks > self._num_free_blocks()
            ):
                break
            self.waiting.pop_request()
            rows += unit
        return rows

    def _make_room(self) -> None:
        """Preempt whole units, the last ones first, until the running ones can take a step."""
        # Each row takes at most one block more; mostly that is seen to fit without counting.
        num_kv_groups = len(self._layout.block_sizes)
        while self._num_free_blocks() < num_kv_groups * len(self.running):
            if self._growth() <= self._num_free_blocks():
                return
            self._preempt_last()

    def _step_aside_for(self, trial: list[Request]) -> list[Request]:
        """Leave the step to a unit that is alone; the running rows, to be put back after it."""
        self.waiting.remove_request(trial[0])
        num_blocks = sum(self._layout.num_blocks(row.num_tokens) for row in trial)
        while self.running and (
            num_blocks > self._num_free_blocks()
            or len(self.running) + len(trial) > self.max_num_running_reqs
        ):
            self._preempt_last()
        held, self.running = self.running, []
        return held

    def _preempt_last(self) -> None:
        last = max(self.running, key=lambda row: (row.priority, row.arrival_time))
        for number, row in enumerate(self._unit_of(last)):
            self.running.remove(row)
            self._preempt_request(row, time.monotonic())
            if number > 0:
                self.waiting.remove_request(row)

    def _put_back(self, left: list[Request]) -> None:
        """What vLLM did not take after all goes back into the line."""
        for row in left:
            if self._unit_of(row)[0] is row:
                self.waiting.add_request(row)

    def _growth(self) -> int:
        """The blocks that the running rows take in this step."""
        num_blocks = self._layout.num_blocks
        return sum(
            num_blocks(row.num_tokens) - num_blocks(row.num_computed_tokens) for row in self.running
        )

    def _num_free_blocks(self) -> int:
        return int(self.kv_cache_manager.block_pool.get_num_free_blocks())

    # --- units -----------------------------------------------------------------------------------

    def _trial_unit(self) -> list[Request] | None:
        """The unit that is to run alone now, if there is one, and all of it has come."""
        while self._alone:
            row = self.requests[self._alone[0]]
            if row.num_output_tokens == 0 and row.status is not RequestStatus.RUNNING:
                unit = self._unit_of(row)
                return unit if _is_whole(unit) else None
            self._alone.pop(0)
        return None

    def _unit_of(self, row: Request) -> list[Request]:
        mark = _mark(row)
        return [row] if mark is None else list(self._groups[mark.group_id])


def _resume_grammar(row: Request) -> bool:
    """Lead the grammar through the tokens that the row had before; whether it takes them."""
    num_had = read_resumed(row.sampling_params.extra_args)
    if num_had == 0:
        return True
    had = list(row.prompt_token_ids[-num_had:])
    taken: bool = row.structured_output_request.grammar.accept_tokens(row.request_id, had)
    return taken


def _mark(row: Request) -> GroupMark | None:
    return read_group(row.sampling_params.extra_args)


def _is_whole(unit: list[Request]) -> bool:
    return _mark(unit[0]) is None or len(unit) == GROUP_SIZE


def _row_number(row: Request) -> int:
    mark = _mark(row)
    return 0 if mark is None else mark.row
