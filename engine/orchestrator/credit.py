"""Credit: how far each stage of a request may go, told to its replica before it needs to know.

A credit is what has been taken plus what may wait (``engine.buffering``). It only ever grows, so a
grant cannot come too late to stop a replica, whatever the load.
"""

from __future__ import annotations

from engine.buffering import caller_budget, next_stage_budget, report_step
from engine.config import EngineConfig
from engine.messages import UNLIMITED
from engine.orchestrator.records import RequestRecord
from engine.pipeline import PipelineConfig


class CreditPolicy:
    """Credits of stages: samples of audio, or else payloads."""

    def __init__(self, pipeline: PipelineConfig, config: EngineConfig) -> None:
        self._pipeline = pipeline
        self._config = config

    def total(self, record: RequestRecord, stage_id: int) -> int:
        """How much the stage may send in all, as things are now."""
        credit, _budget = self._total(record, stage_id)
        return credit

    def grant(self, record: RequestRecord, stage_id: int) -> int | None:
        """A new credit that is worth a message, or None.

        Small steps are saved up, unless the stage has used all it had and waits.
        """
        progress = record.stages[stage_id]
        credit, budget = self._total(record, stage_id)
        growth = credit - progress.credit
        if growth <= 0 or (growth < report_step(budget) and not progress.is_out_of_credit):
            return None
        progress.credit = credit
        return credit

    def _total(self, record: RequestRecord, stage_id: int) -> tuple[int, int]:
        """The credit, and the budget behind it."""
        progress = record.stages[stage_id]
        output_ids = record.submission.final_output_stage_ids
        credit = budget = UNLIMITED
        if stage_id < record.submission.final_stage_id:
            budget = next_stage_budget(self._pipeline, self._config, stage_id)
            waiting = record.stages[stage_id + 1].num_waiting
            credit = progress.num_passed - waiting + budget
        if stage_id in output_ids:
            for_caller = caller_budget(self._pipeline, self._config, stage_id, len(output_ids))
            if progress.num_taken + for_caller < credit:
                budget = for_caller
                credit = progress.num_taken + for_caller
        return credit, budget
