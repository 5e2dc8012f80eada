"""Qwen2.5's token2wav in its stage: the waveform of transformers, for the same noise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from engine.errors import ConfigError, InvalidRequestError, StageFailedError
from engine.messages import StageUpdate
from engine.pipeline import PipelineConfig, StageConfig
from tests.worker.models.qwen_omni import small_qwen2_5
from tests.worker.models.qwen_omni.decoding import (
    SEED,
    Heard,
    add,
    context,
    distance,
    run,
    send,
    step,
)
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


def windowed(num_blocks: int) -> Code2WavStage:
    checkpoint = str(small_qwen2_5.checkpoint())
    options = {"family": "qwen2.5", "checkpoint": checkpoint, "device": "cpu"}
    return load(context(window_blocks=num_blocks, **options))


def test_a_window_that_holds_all_makes_the_waveform_of_the_whole() -> None:
    stage = windowed(8)
    codes = random_codes(32)
    add(stage, "r")
    send(stage, "r", codes, [32])
    assert distance(run(stage, "r")["r"].samples, waveform(codes)) < TOLERANCE


def test_windows_come_while_the_speech_goes_on_and_depend_on_nothing_but_its_codes() -> None:
    """A block is four codes: a core of two blocks waits for three more."""
    stage = windowed(2)
    codes = {"a": random_codes(25), "b": random_codes(31)}
    alone = {}
    for name, frames in codes.items():
        add(stage, name, seed=len(frames))
        send(stage, name, frames, [1] * len(frames))
        alone[name] = run(stage, name)[name].samples
        assert len(alone[name]) == len(frames) * 480
    heard = {name: Heard() for name in codes}
    for name, frames in codes.items():
        add(stage, name, seed=len(frames))
    for number in range(31):
        for name, frames in codes.items():
            unit = {"unit": {"codes": frames[number : number + 1]}}
            if number < len(frames):
                final = number == len(frames) - 1
                stage.update(StageUpdate(name, number, unit, final=final))
        step(stage, heard)
        if number == 18:
            assert not heard["a"].chunks
        if number == 19:
            assert len(heard["a"].samples) == 8 * 480
    while step(stage, heard):
        pass
    for name, samples in alone.items():
        assert np.abs(heard[name].samples.astype(int) - samples).max() <= 1


def test_windows_come_near_to_the_whole() -> None:
    """Far nearer than another noise does, though each seam shows what its windows did not see."""
    stage = windowed(6)
    codes = random_codes(44)
    add(stage, "r")
    send(stage, "r", codes, [44])
    samples = run(stage, "r")["r"].samples / 32767
    expected = waveform(codes)
    other = waveform(codes, seed=SEED + 1)
    off = np.sqrt(np.mean((samples - expected) ** 2))
    assert off < 0.5 * np.sqrt(np.mean((other - expected) ** 2))


def test_a_replay_of_windows_goes_on_with_the_same_samples() -> None:
    stage = windowed(4)
    codes, sizes = random_codes(60), [3] * 20
    add(stage, "r")
    send(stage, "r", codes, sizes)
    heard = run(stage, "r")["r"]
    skip = int(0.85 * len(heard.samples))
    last = [row for row in heard.rows if row.end_position <= skip][-1]
    assert last.units_done > 0
    changes: dict[str, Any] = {"first_unit": last.units_done, "checkpoint": last.checkpoint}
    changes |= {"start_position": last.done_position}
    add(stage, "r", skip_position=skip, **changes)
    send(stage, "r", codes, sizes, last.units_done)
    assert np.array_equal(run(stage, "r")["r"].samples, heard.samples[skip:])


def test_windows_of_another_family_are_refused() -> None:
    with pytest.raises(ConfigError, match="window_blocks must be at least 0, and 0 for any"):
        load(context(family="qwen3", checkpoint="x", window_blocks=2))
