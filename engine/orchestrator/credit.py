"""Credit: how far each stage of a request may go, told to its replica before it needs to know.

A limit is what has been taken plus what may wait (``engine.buffering``). It only ever grows, so a
grant cannot come too late to stop a replica, whatever the load.
"""

from __future__ import annotations

from engine.buffering import caller_budget, next_stage_budget, report_step
from engine.config import EngineConfig
from engine.messages import UNLIMITED
from engine.orchestrator.records import RequestRecord
from engine.pipeline import PipelineConfig


class CreditPolicy:
    """Limits of stages, in the positions of their output."""

    def __init__(self, pipeline: PipelineConfig, config: EngineConfig) -> None:
        self._pipeline = pipeline
        self._config = config

    def limit(self, record: RequestRecord, stage_id: int) -> int:
        """The position at which the stage has to stop, as things are now."""
        limit, _budget = self._limit(record, stage_id)
        return limit

    def grant(self, record: RequestRecord, stage_id: int) -> int | None:
        """A new limit that is worth a message, or None.

        Small steps are saved up, unless the stage has come to its limit and waits.
        """
        progress = record.stages[stage_id]
        limit, budget = self._limit(record, stage_id)
        growth = limit - progress.granted
        if growth <= 0 or (growth < report_step(budget) and not progress.is_out_of_credit):
            return None
        progress.granted = limit
        return limit

    def _limit(self, record: RequestRecord, stage_id: int) -> tuple[int, int]:
        """The limit and the budget behind it."""
        progress = record.stages[stage_id]
        output_ids = record.submission.final_output_stage_ids
        limit = budget = UNLIMITED
        if stage_id < record.submission.final_stage_id:
            budget = next_stage_budget(self._pipeline, self._config, stage_id)
            waiting = record.stages[stage_id + 1].num_waiting
            limit = progress.passed_position - waiting + budget
        if stage_id in output_ids:
            for_caller = caller_budget(self._pipeline, self._config, stage_id, len(output_ids))
            if progress.caller_position + for_caller < limit:
                budget = for_caller
                limit = progress.caller_position + for_caller
        return limit, budget
