"""Thoughts to speech through worker processes, which may be lost on the way."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from engine.async_omni_engine import AsyncOmniEngine
from engine.pipeline import PipelineConfig, StageConfig
from tests.engine.running import pids
from tests.worker.models.qwen_omni import small_qwen3
from tests.worker.models.qwen_omni.recorded import record
from tests.worker.models.qwen_omni.test_qwen3_talker import frames_of, thoughts_of
from tests.worker.vllm.engines import running_engine

pytestmark = [
    pytest.mark.torch,
    pytest.mark.process,
    pytest.mark.filterwarnings("default"),
]

TALKER, CODE2WAV = 1, 2
NUM_FIRST = 6  # of the thoughts: some speech, and not the end
_MODELS = "worker.models.qwen_omni"


def greedy_checkpoint(folder: Path) -> Path:
    """The small one, but for how it says that it samples."""
    for file in small_qwen3.checkpoint().iterdir():
        if file.name != "generation_config.json":
            (folder / file.name).symlink_to(file)
    said = small_qwen3.SAMPLING | {"talker_do_sample": False}
    (folder / "generation_config.json").write_text(json.dumps(said))
    return folder


def pipeline(folder: Path, path: Path) -> PipelineConfig:
    options: dict[str, Any] = {"family": "qwen3", "checkpoint": str(folder), "device": "cpu"}
    # More than the units of any answer here: of the talker's input all is needed for a replay.
    shared: dict[str, Any] = {"max_pending_units": 256, "start_timeout_s": 300}
    shared |= {"replica_deadline_s": 300}
    stages = (
        StageConfig(
            name="think",
            model="tests.worker.models.qwen_omni.recorded:load",
            engine_output_type="latent",
            options={"path": str(path)},
            start_timeout_s=300,
        ),
        StageConfig(
            name="talk",
            model=f"{_MODELS}.talker_stage:load",
            engine_output_type="latent",
            options=options | {"kv_cache_memory_mb": 1},
            **shared,
        ),
        StageConfig(
            name="code2wav",
            model=f"{_MODELS}.code2wav_stage:load",
            engine_output_type="audio",
            options=options,
            **shared,
        ),
    )
    return PipelineConfig(name="recorded", description="d", stages=stages)


async def speak(engine: AsyncOmniEngine, victims: list[int]) -> np.ndarray[Any, Any]:
    """One answer's samples; the workers of these stages are killed when it has begun."""
    outputs = engine.generate("r", {"text": str(NUM_FIRST), "voice": "ethan"}, resumable=True)
    chunks = []
    async for output in outputs:
        if output.audio is not None:
            chunks.append(np.frombuffer(output.audio, np.int16))
        if len(chunks) == 1 and output.audio is not None:
            for stage_id in victims:
                os.kill(pids(engine, stage_id)[0], signal.SIGKILL)
            await engine.add_streaming_update_async("r", "100", resumable=False)
    return np.concatenate(chunks)


@torch.inference_mode()
def waveform() -> np.ndarray[Any, np.dtype[np.float32]]:
    codes = torch.tensor(frames_of("c")).T[None]
    samples: np.ndarray[Any, np.dtype[np.float32]] = (
        small_qwen3.reference().code2wav(codes)[0, 0].numpy()
    )
    return samples


def test_a_lost_talker_and_code2wav_are_not_heard(tmp_path: Path) -> None:
    """Their successors say it all again, and only what is new leaves them."""
    path = tmp_path / "thoughts.npz"
    record(path, thoughts_of("c"))
    expected = waveform()
    with running_engine(pipeline(greedy_checkpoint(tmp_path), path)) as running:
        for victims in ([], [TALKER, CODE2WAV]):
            samples = running.run(speak(running.engine, victims))
            assert samples.shape == expected.shape, victims
            assert np.abs(samples / 32767 - expected).max() < 1e-4, victims
