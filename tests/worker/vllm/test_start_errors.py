"""What keeps a language-model stage from starting reaches whoever waits for it, as one sentence."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from engine.async_omni_engine import AsyncOmniEngine
from engine.errors import UnavailableError
from engine.pipeline import LoraModule, PipelineConfig
from tests.worker.vllm.engines import PATIENT, START_TIMEOUT_S
from tests.worker.vllm.pipelines import spelled
from tests.worker.vllm.test_lora import write_lora
from tests.worker.vllm.tiny_model import load_reference, write_tiny_model

pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("default")]


def failure_of(pipeline: PipelineConfig) -> str:
    async def scenario() -> str:
        engine = AsyncOmniEngine(pipeline, PATIENT)
        engine.start()
        try:
            with pytest.raises(UnavailableError) as caught:
                await engine.wait_ready(START_TIMEOUT_S)
            return caught.value.message
        finally:
            await engine.shutdown(0.1)

    return asyncio.run(scenario())


def test_missing_weights(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    message = failure_of(spelled(tmp_path))
    assert "holds no weights" in message
    assert "\n" not in message


def test_a_cache_too_small_for_one_sequence(tmp_path: Path) -> None:
    message = failure_of(spelled(write_tiny_model(tmp_path), num_kv_blocks=2))
    assert "vLLM cannot start" in message
    assert "KV cache" in message
    assert "\n" not in message


def test_a_lora_that_cannot_be_loaded(tmp_path: Path) -> None:
    checkpoint, lora = write_tiny_model(tmp_path / "model"), tmp_path / "lora"
    write_lora(load_reference(checkpoint), lora)
    loras = (LoraModule(name="bright", path=str(lora)),)
    message = failure_of(spelled(checkpoint, loras=loras, max_lora_rank=1))
    assert "cannot load 'bright'" in message
    assert "rank" in message
    assert "\n" not in message


def test_a_lora_that_is_not_there(tmp_path: Path) -> None:
    loras = (LoraModule(name="bright", path=str(tmp_path / "nowhere")),)
    message = failure_of(spelled(write_tiny_model(tmp_path), loras=loras))
    assert message.endswith(f"llm.loras: bright: there is no folder {tmp_path}/nowhere")
