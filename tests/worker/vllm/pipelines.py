"""A pipeline with a language model in front: tiny_model, spelled as tones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engine.pipeline import LlmConfig, PipelineConfig, StageConfig, load_pipeline
from tests.worker.vllm.tiny_model import MAX_LEN


def tiny_llm(checkpoint: Path, **changes: Any) -> LlmConfig:
    settings: dict[str, Any] = {
        "checkpoint": str(checkpoint),
        "dtype": "float32",
        "max_model_len": MAX_LEN,
        "max_num_seqs": 24,
        "block_size": 32,
        "num_kv_blocks": 200,
        "kv_cache_memory_mb": 64,
    }
    return LlmConfig(**settings | changes)


def spelled(checkpoint: Path, num_replicas: int = 1, **llm: Any) -> PipelineConfig:
    tone = load_pipeline("sine").stages[1]
    spelling = StageConfig(
        name="spelling",
        model="tests.worker.vllm.spelling:load",
        stage_type="llm",
        num_replicas=num_replicas,
        max_pending_units=256,
        start_timeout_s=600.0,
        replica_deadline_s=300.0,
        llm=tiny_llm(checkpoint, **llm),
    )
    return PipelineConfig(
        name="spelled",
        description="Sentences as tones, through a language model",
        stages=(spelling, tone),
        prompt_expand_func="tests.worker.vllm.spelling:expand_prompt",
    )
