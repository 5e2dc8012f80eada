"""Codes into a code2wav stage, and its audio out of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.messages import SamplingParams, StageRequest, StageUpdate
from engine.pipeline import PipelineConfig, StageConfig
from worker.models.qwen_omni.code2wav_stage import Code2WavStage
from worker.models.qwen_omni.codes import Codes, pack_codes
from worker.stage_model import RowStatus, StageContext

SEED = 11


def context(**options: Any) -> StageContext:
    stage = StageConfig(name="code2wav", model="x:y", engine_output_type="audio", options=options)
    return StageContext(PipelineConfig(name="p", description="d", stages=(stage,)), stage, 0)


@dataclass(slots=True)
class Heard:
    """What a stage made of a request: its samples, and its rows."""

    chunks: list[NDArray[np.int16]] = field(default_factory=list)
    rows: list[RowStatus] = field(default_factory=list)

    @property
    def samples(self) -> NDArray[np.int16]:
        return np.concatenate([np.zeros(0, np.int16), *self.chunks])


def add(stage: Code2WavStage, name: str, **changes: Any) -> None:
    given: dict[str, Any] = {
        "prompt": {"voice": "Ethan"},
        "sampling": SamplingParams(),
        "seed": SEED,
    }
    stage.add(StageRequest(name, **(given | changes)))


def send(
    stage: Code2WavStage, name: str, codes: Codes, sizes: list[int], first_unit: int = 0
) -> None:
    """The codes as units of these sizes, from the unit with this number on; then the end."""
    ends = np.cumsum(sizes)
    for number in range(first_unit, len(sizes)):
        unit = codes[ends[number] - sizes[number] : ends[number]]
        final = number == len(sizes) - 1
        stage.update(StageUpdate(name, number, {"unit": pack_codes(unit)}, final=final))


def step(stage: Code2WavStage, heard: dict[str, Heard]) -> bool:
    """One step of all who have something to do; whether there was one. Raises a row's error."""
    batch = [name for name in heard if stage.has_work(name)]
    if not batch:
        return False
    output = stage.step(batch)
    ids = output.multimodal_outputs["meta"]["req_id"]
    for name, samples in zip(ids, output.multimodal_outputs["audio"], strict=True):
        heard[name].chunks.append(samples)
    for name, row in output.rows.items():
        heard[name].rows.append(row)
        if row.finished or row.error is not None:
            stage.abort(name)
    return True


def run(stage: Code2WavStage, *names: str) -> dict[str, Heard]:
    """Until none of these has anything left to do."""
    heard = {name: Heard() for name in names}
    while step(stage, heard):
        pass
    return heard


def distance(samples: NDArray[np.int16], expected: NDArray[np.float32]) -> float:
    """The largest difference, in units of full scale."""
    assert samples.shape == expected.shape
    return float(np.abs(samples / 32767 - expected).max())
