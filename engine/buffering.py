"""How far a stage may run ahead of those who take its output: in samples of audio, or payloads.

These bounds hold whatever the load: a replica takes no step for a request that has no credit left,
so at most the output of one step comes on top.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.config import EngineConfig
from engine.pipeline import PipelineConfig

# A unit of text or features stands for at least a word, and holds some kilobytes at most.
_UNITS_PER_S = 2
# One of a language model may be a single token. Text is read at 238 words a minute (Brysbaert
# 2019), in English about 4/3 tokens each: 5.3 a second.
_TOKENS_PER_S = 6


@dataclass(frozen=True, slots=True)
class StageReports:
    """How an output stage's output is measured, and how often it is told that it was taken."""

    is_audio: bool
    report_every: int


def caller_budget(
    pipeline: PipelineConfig, config: EngineConfig, stage_id: int, num_outputs: int
) -> int:
    """What may wait for the caller of a request with so many output stages, at least 1."""
    stage = pipeline.stages[stage_id]
    if stage.engine_output_type == "audio":
        rate = pipeline.sample_rate
    else:
        rate = _TOKENS_PER_S if stage.stage_type == "llm" else _UNITS_PER_S
    return max(1, int(config.max_buffered_audio_s * rate) // num_outputs)


def next_stage_budget(pipeline: PipelineConfig, config: EngineConfig, stage_id: int) -> int:
    """What a stage may have waiting in the stage after it."""
    if pipeline.stages[stage_id].engine_output_type == "audio":
        return max(1, int(config.max_buffered_audio_s * pipeline.sample_rate))
    return pipeline.stages[stage_id + 1].max_pending_units


def report_step(budget: int) -> int:
    """How much must have been taken before it is worth a message: a quarter of what may wait."""
    return max(1, budget // 4)


def stage_reports(
    pipeline: PipelineConfig, config: EngineConfig, output_ids: Sequence[int]
) -> dict[int, StageReports]:
    """Those of each output stage of a request."""
    budgets = {i: caller_budget(pipeline, config, i, len(output_ids)) for i in output_ids}
    return {
        i: StageReports(pipeline.stages[i].engine_output_type == "audio", report_step(budget))
        for i, budget in budgets.items()
    }
