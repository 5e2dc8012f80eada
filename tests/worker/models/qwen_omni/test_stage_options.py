"""Options that the omni models' stages on torch have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from engine.errors import ConfigError
from engine.pipeline import PipelineConfig, StageConfig
from worker.models.qwen_omni import code2wav_stage, hear_stage, talker_stage
from worker.stage_model import StageContext

pytestmark = pytest.mark.torch


@pytest.mark.parametrize(
    ("load", "options"),
    [
        (code2wav_stage.load, {"family": "qwen3"}),
        (hear_stage.load, {}),
        (talker_stage.load, {"family": "qwen3"}),
    ],
)
def test_each_stage_bounds_the_memory_it_takes_of_a_gpu(
    load: Callable[[StageContext], object], options: dict[str, Any]
) -> None:
    wrong = {"checkpoint": "/nowhere/at/all", "gpu_memory_fraction": 1.5, **options}
    stage = StageConfig(name="s", model="x:y", options=wrong)
    pipeline = PipelineConfig(name="p", description="d", stages=(stage,))
    with pytest.raises(ConfigError, match=r"gpu_memory_fraction .* at most 1, got 1\.5"):
        load(StageContext(pipeline, stage, 0))
