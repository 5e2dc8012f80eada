"""Totals since the start; read by the metrics."""

from __future__ import annotations

from dataclasses import dataclass

from engine.messages import StageOutput


@dataclass(slots=True)
class StageCounters:
    """What the steps of one stage did.

    A subset step is one that routed output to some requests of its batch, and not to all.
    """

    num_steps: int = 0
    num_subset_steps: int = 0
    num_batch_rows: int = 0
    num_routed_rows: int = 0
    step_ms: float = 0.0

    def count(self, output: StageOutput) -> None:
        self.num_steps += 1
        self.num_batch_rows += output.num_batch_rows
        self.num_routed_rows += output.num_routed_rows
        self.num_subset_steps += 0 < output.num_routed_rows < output.num_batch_rows
        self.step_ms += output.step_ms


@dataclass(slots=True)
class CoreCounters:
    """What became of the requests."""

    stages: list[StageCounters]
    num_finished: int = 0
    num_failed: int = 0
    num_aborted: int = 0
    num_replays: int = 0
