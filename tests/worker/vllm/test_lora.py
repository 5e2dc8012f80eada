"""A LoRA by name, against the same weights merged into the model."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.errors import InvalidRequestError
from engine.pipeline import LoraModule
from tests.worker.vllm.engines import RunningEngine, running_engine, tokens_of
from tests.worker.vllm.pipelines import spelled
from tests.worker.vllm.spelling import prompt_tokens
from tests.worker.vllm.test_guided_stage import SCALE
from tests.worker.vllm.tiny_model import find_mismatches, load_reference, write_tiny_model

pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("default")]

RANK = 8
ALPHA = 16


def write_lora(model: Any, folder: Path) -> Any:
    """A LoRA of the query projections, in the format of peft; the model with it merged."""
    from safetensors.torch import save_file

    generator = torch.Generator().manual_seed(3)
    merged, tensors = copy.deepcopy(model), dict[str, torch.Tensor]()
    for number, layer in enumerate(merged.model.layers):
        weight = layer.self_attn.q_proj.weight
        a = torch.randn(RANK, weight.shape[1], generator=generator) * 0.3
        b = torch.randn(weight.shape[0], RANK, generator=generator) * 0.3
        prefix = f"base_model.model.model.layers.{number}.self_attn.q_proj.lora"
        tensors |= {f"{prefix}_A.weight": a, f"{prefix}_B.weight": b}
        weight.data += ALPHA / RANK * (b @ a)
    folder.mkdir()
    save_file(tensors, folder / "adapter_model.safetensors")
    config = {"peft_type": "LORA", "r": RANK, "lora_alpha": ALPHA, "target_modules": ["q_proj"]}
    (folder / "adapter_config.json").write_text(json.dumps(config | {"bias": "none"}))
    return merged


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Any, Any]:
    folder = tmp_path_factory.mktemp("tiny")
    checkpoint, lora = write_tiny_model(folder / "model"), folder / "lora"
    plain = load_reference(checkpoint)
    return checkpoint, lora, plain, write_lora(plain, lora)


@pytest.fixture(scope="module")
def running(models: tuple[Path, Path, Any, Any]) -> Iterator[RunningEngine]:
    checkpoint, lora, _plain, _merged = models
    loras = (LoraModule(name="bright", path=str(lora)),)
    with running_engine(spelled(checkpoint, loras=loras, max_lora_rank=RANK)) as engine:
        yield engine


def test_requests_with_and_without_a_lora_share_a_batch(
    running: RunningEngine, models: tuple[Path, Path, Any, Any]
) -> None:
    texts = [f"text {number}" for number in range(8)]

    async def scenario() -> list[list[int]]:
        return await asyncio.gather(
            *(
                tokens_of(
                    running.engine,
                    f"r{number}",
                    text,
                    SCALE if number % 4 < 2 else None,
                    lora_request="bright" if number % 2 else None,
                )
                for number, text in enumerate(texts)
            )
        )

    for number, (text, tokens) in enumerate(zip(texts, running.run(scenario()), strict=True)):
        model = models[2 + number % 2]
        free = prompt_tokens(f"free{text}") if number % 4 < 2 else None
        scale = SCALE if free else 1.0
        assert find_mismatches(model, prompt_tokens(text), free, scale, tokens) == [], number


def test_a_lora_that_was_not_declared_is_refused_with_those_that_were(
    running: RunningEngine,
) -> None:
    async def scenario() -> None:
        with pytest.raises(InvalidRequestError, match="must be one of bright, got 'dark'"):
            await tokens_of(running.engine, "r", "text", lora_request="dark")

    running.run(scenario())
