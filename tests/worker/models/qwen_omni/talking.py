"""Thoughts into a talker's stage, and its codes out of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from engine.messages import SamplingParams, StageRequest
from engine.pipeline import PipelineConfig, StageConfig
from tests.worker.models.qwen_omni.thinking import Sender
from worker.models.qwen_omni.codes import Codes
from worker.models.qwen_omni.talker_stage import TalkerStage
from worker.stage_model import RowStatus, StageContext

GREEDY = SamplingParams(temperature=0.0)
Said: TypeAlias = dict[str, list[Codes]]


def context(family: str, checkpoint: Path, /, **options: Any) -> StageContext:
    chosen: dict[str, Any] = {"family": family, "checkpoint": str(checkpoint), "device": "cpu"}
    chosen |= {"kv_cache_memory_mb": 1, "max_ms_per_token": 200, "slack_ms": 1000}
    stage = StageConfig(
        name="talker", model="x:y", engine_output_type="latent", options=chosen | options
    )
    return StageContext(PipelineConfig(name="p", description="d", stages=(stage,)), stage, 0)


def request(name: str, **changes: Any) -> StageRequest:
    given: dict[str, Any] = {"prompt": {"voice": "Ethan"}, "sampling": GREEDY, "seed": 7}
    return StageRequest(name, **(given | changes))


def step(stage: TalkerStage, names: list[str], said: Said) -> dict[str, RowStatus]:
    """One step of those that have something to do; the finished ones are let go."""
    batch = [name for name in names if stage.has_work(name)]
    if not batch:
        return {}
    output = stage.step(batch)
    ids = output.multimodal_outputs["meta"]["req_id"]
    for name, unit in zip(ids, output.multimodal_outputs["unit"], strict=True):
        said.setdefault(name, []).append(unit["codes"])
    for name, row in output.rows.items():
        if row.error is not None:
            stage.abort(name)
            raise row.error
        if row.finished:
            stage.abort(name)
    return output.rows


def speak(stage: TalkerStage, sender: Sender, feed: Callable[[Sender], None]) -> Codes:
    """All codes of one request whose thoughts come as ``feed`` gives them."""
    said: Said = {}
    rows: dict[str, RowStatus] = {}
    while sender.name not in rows or not rows[sender.name].finished:
        if not sender.is_done:
            feed(sender)
        rows = step(stage, [sender.name], said)
        assert rows or not sender.is_done, "it waits, and nothing comes"
    return np.concatenate(said[sender.name])


def one_by_one(sender: Sender) -> None:
    sender.send(1)


def in_bursts(sender: Sender) -> None:
    sender.send(4)


def at_once(sender: Sender) -> None:
    sender.send()
