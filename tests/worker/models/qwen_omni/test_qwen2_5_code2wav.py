"""Qwen2.5's token2wav in its stage: the waveform of transformers, for the same noise."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from engine.errors import ConfigError, InvalidRequestError, StageFailedError
from engine.messages import StageUpdate
from engine.pipeline import PipelineConfig, StageConfig
from tests.worker.models.qwen_omni import small_qwen2_5
from tests.worker.models.qwen_omni.decoding import SEED, add, context, distance, run, send
from worker.models.qwen_omni.code2wav_stage import Code2WavStage, load
from worker.models.qwen_omni.codes import Codes
from worker.stage_model import StageContext

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("default")]

TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def stage() -> Code2WavStage:
    return load(context(family="qwen2.5", checkpoint=str(small_qwen2_5.checkpoint()), device="cpu"))


def random_codes(num_frames: int) -> Codes:
    generator = np.random.default_rng(num_frames)
    return generator.integers(0, small_qwen2_5.NUM_CODES, (num_frames, 1)).astype(np.int32)


@torch.inference_mode()
def waveform(codes: Codes, voice: str = "Ethan", seed: int = SEED) -> NDArray[np.float32]:
    model = small_qwen2_5.reference()
    speaker = model.speaker_map[voice]
    torch.manual_seed(seed)
    audio: NDArray[np.float32] = model.token2wav(
        torch.from_numpy(codes[:, 0].astype(np.int64))[None],
        conditioning=speaker["cond"],
        reference_mel=speaker["ref_mel"],
    ).numpy()
    return audio


@pytest.mark.parametrize("num_frames", [1, 5, 31])
def test_the_waveform_is_that_of_transformers(stage: Code2WavStage, num_frames: int) -> None:
    codes = random_codes(num_frames)
    add(stage, "r")
    send(stage, "r", codes, [1] * num_frames)
    heard = run(stage, "r")["r"]
    expected = waveform(codes)
    assert np.abs(expected).max() > 0.01, "silence would prove nothing"
    assert distance(heard.samples, expected) < TOLERANCE
    assert len(heard.samples) == num_frames * 480
    assert heard.rows[-1].finished
    assert stage.num_requests == 0


def test_requests_of_one_batch_keep_their_voice_and_their_noise(stage: Code2WavStage) -> None:
    codes = {"a": random_codes(7), "b": random_codes(12)}
    add(stage, "a", prompt={"voice": "Chelsie"}, seed=1)
    add(stage, "b", prompt={"voice": "ethan"}, seed=2)
    for name, frames in codes.items():
        send(stage, name, frames, [len(frames)])
    heard = run(stage, "a", "b")
    assert distance(heard["a"].samples, waveform(codes["a"], "Chelsie", 1)) < TOLERANCE
    assert distance(heard["b"].samples, waveform(codes["b"], "Ethan", 2)) < TOLERANCE
    other = waveform(codes["a"], "Ethan", 1)
    assert np.abs(waveform(codes["a"], "Chelsie", 1) - other).max() > 10 * TOLERANCE


def test_it_waits_for_the_last_code(stage: Code2WavStage) -> None:
    add(stage, "r")
    send(stage, "r", random_codes(9), [4, 5])
    assert stage.has_work("r")
    stage.abort("r")
    add(stage, "r")
    stage.update(StageUpdate("r", 0, {"unit": {"codes": random_codes(9)}}))
    assert not stage.has_work("r")
    stage.update(StageUpdate("r", 1, {}, final=True))
    assert distance(run(stage, "r")["r"].samples, waveform(random_codes(9))) < TOLERANCE


def test_without_a_code_there_is_no_audio(stage: Code2WavStage) -> None:
    add(stage, "r")
    stage.update(StageUpdate("r", 0, {}, final=True))
    heard = run(stage, "r")["r"]
    assert len(heard.samples) == 0
    assert heard.rows[-1].finished


@pytest.mark.parametrize("bad", [small_qwen2_5.NUM_CODES + 2, -1])
def test_codes_outside_of_the_codebook_are_refused(stage: Code2WavStage, bad: int) -> None:
    codes = random_codes(4)
    codes[2] = bad
    add(stage, "r")
    with pytest.raises(StageFailedError, match="codes must be from 0 to 73"):
        send(stage, "r", codes, [4])
    stage.abort("r")


def test_codes_of_another_shape_are_refused(stage: Code2WavStage) -> None:
    add(stage, "r")
    with pytest.raises(StageFailedError, match=r"codes must be int32 \[frames, 1\]"):
        stage.update(StageUpdate("r", 0, {"unit": {"codes": np.zeros((2, 3), np.int32)}}))
    stage.abort("r")


def test_an_unknown_voice_is_refused(stage: Code2WavStage) -> None:
    with pytest.raises(InvalidRequestError, match="voice must be one of Chelsie, Ethan"):
        add(stage, "r", prompt={"voice": "Nobody"})


def test_another_sample_rate_is_refused() -> None:
    options = {"family": "qwen2.5", "checkpoint": str(small_qwen2_5.checkpoint()), "device": "cpu"}
    stage = StageConfig(name="c", model="x:y", engine_output_type="audio", options=options)
    pipeline = PipelineConfig(name="p", description="d", stages=(stage,), sample_rate=16000)
    with pytest.raises(ConfigError, match="sample_rate must be 24000, got 16000"):
        load(StageContext(pipeline, stage, 0))
