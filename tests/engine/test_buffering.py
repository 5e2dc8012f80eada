"""How much of a stage's output may wait for the caller."""

from __future__ import annotations

import pytest

from engine.buffering import caller_budget, stage_reports
from engine.config import EngineConfig
from engine.pipeline import LlmConfig, PipelineConfig, StageConfig

TEN_SECONDS = EngineConfig(max_buffered_audio_s=10.0)


def one_stage(stage: StageConfig) -> PipelineConfig:
    return PipelineConfig(name="one", description="one stage", stages=(stage,), models=("one",))


AUDIO = one_stage(StageConfig(name="a", model="none:none", engine_output_type="audio"))
UNITS = one_stage(StageConfig(name="u", model="none:none", engine_output_type="text"))
TOKENS = one_stage(
    StageConfig(
        name="t",
        model="none:none",
        engine_output_type="text",
        stage_type="llm",
        llm=LlmConfig(checkpoint="/nowhere"),
    )
)


@pytest.mark.parametrize(
    ("pipeline", "budget"),
    [
        pytest.param(AUDIO, 10 * AUDIO.sample_rate, id="audio"),
        pytest.param(UNITS, 20, id="units of at least a word"),
        pytest.param(TOKENS, 60, id="tokens"),
    ],
)
def test_what_may_wait_is_as_much_as_is_heard_or_read_in_the_time(
    pipeline: PipelineConfig, budget: int
) -> None:
    assert caller_budget(pipeline, TEN_SECONDS, 0, 1) == budget
    assert caller_budget(pipeline, TEN_SECONDS, 0, 2) == budget // 2
    assert stage_reports(pipeline, TEN_SECONDS, [0])[0].report_every == budget // 4
