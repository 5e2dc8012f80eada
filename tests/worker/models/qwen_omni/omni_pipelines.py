"""The omni pipelines as they ship, but for their checkpoints and what a CPU cannot do."""

from __future__ import annotations

from pathlib import Path

import msgspec

from engine.pipeline import PipelineConfig, StageConfig, load_pipeline


def small_omni(name: str, folder: Path, *, is_live: bool = False, **llm: object) -> PipelineConfig:
    """``llm`` are changes of the thinker's section; ``is_live``: it finds turns in live audio."""
    shipped = load_pipeline(name)
    ears, others = shipped.stages[:1], shipped.stages[1:]
    assert [stage.name for stage in ears] == ["vad"]
    stages = tuple(_small(stage, str(folder), llm) for stage in others)
    if is_live:
        return msgspec.structs.replace(shipped, stages=ears + stages)
    return msgspec.structs.replace(shipped, stages=stages)


def listened(pipeline: PipelineConfig) -> PipelineConfig:
    """Up to the thinker, with a stage behind it that only listens."""
    hear, think = pipeline.stages[:2]
    think = msgspec.structs.replace(think, options={"system": None, "tool_format": "none"})
    listen = StageConfig(
        name="listen",
        model="tests.worker.models.qwen_omni.listening:load",
        engine_output_type="latent",
        max_pending_units=4096,
        start_timeout_s=600.0,
    )
    return msgspec.structs.replace(pipeline, stages=(hear, think, listen))


def greedy(pipeline: PipelineConfig) -> PipelineConfig:
    """Its thinker says the same each time, unless it is asked to do otherwise."""
    stages = tuple(
        stage
        if stage.llm is None
        else msgspec.structs.replace(stage, options=stage.options | {"temperature": 0.0})
        for stage in pipeline.stages
    )
    return msgspec.structs.replace(pipeline, stages=stages)


def _small(stage: StageConfig, folder: str, llm: dict[str, object]) -> StageConfig:
    if stage.llm is None:
        options = stage.options | {"checkpoint": folder, "device": "cpu"}
        return msgspec.structs.replace(stage, options=options)
    changes: dict[str, object] = {
        "checkpoint": folder,
        "tokenizer": folder,
        "dtype": "float32",
        "max_model_len": 1024,
        "max_num_seqs": 8,
        "kv_cache_memory_mb": 64,
    }
    return msgspec.structs.replace(stage, llm=msgspec.structs.replace(stage.llm, **changes | llm))
