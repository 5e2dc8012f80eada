"""Qwen3's code2wav in its stage: pieces that join to the waveform of the whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from engine.errors import StageFailedError
from engine.messages import StageUpdate
from tests.worker.models.qwen_omni import small_qwen3
from tests.worker.models.qwen_omni.decoding import (
    Heard,
    add,
    context,
    distance,
    run,
    send,
    step,
)
from worker.models.qwen_omni.code2wav import Piece
from worker.models.qwen_omni.code2wav_stage import Code2WavStage, load
from worker.models.qwen_omni.codes import Codes, pack_codes
from worker.models.qwen_omni.qwen3_code2wav import Code2Wav, load_decoder

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("default")]

TOLERANCE = 1e-4
FRAME, LAG = 1920, 555


@pytest.fixture(scope="module")
def stage() -> Code2WavStage:
    return load(context(family="qwen3", checkpoint=str(small_qwen3.checkpoint()), device="cpu"))


@pytest.fixture(scope="module")
def decoder() -> Code2Wav:
    return load_decoder(str(small_qwen3.checkpoint()), torch.device("cpu"))


def random_codes(num_frames: int, seed: int = 0) -> Codes:
    generator = np.random.default_rng(seed)
    size = (num_frames, small_qwen3.NUM_GROUPS)
    return generator.integers(0, small_qwen3.NUM_CODES, size).astype(np.int32)


@torch.inference_mode()
def waveform(codes: Codes) -> NDArray[np.float32]:
    """All frames at once, by transformers."""
    tensor = torch.from_numpy(codes.T.astype(np.int64))[None]
    audio: NDArray[np.float32] = small_qwen3.reference().code2wav(tensor)[0, 0].numpy()
    return audio


@pytest.mark.parametrize("num_frames", [1, 2, 7, 60])
def test_pieces_make_the_waveform_of_the_whole(stage: Code2WavStage, num_frames: int) -> None:
    codes = random_codes(num_frames)
    add(stage, "r")
    send(stage, "r", codes, [1] * num_frames)
    heard = run(stage, "r")["r"]
    expected = waveform(codes)
    assert np.abs(expected).max() > 0.01, "silence would prove nothing"
    assert distance(heard.samples, expected) < TOLERANCE
    assert len(heard.samples) == num_frames * FRAME - LAG
    assert heard.rows[-1].finished
    assert heard.rows[-1].end_position == len(heard.samples)


def test_it_is_what_transformers_decodes_in_chunks_where_one_chunk_is_enough(
    stage: Code2WavStage,
) -> None:
    codes = random_codes(40)
    tensor = torch.from_numpy(codes.T.astype(np.int64))[None]
    with torch.inference_mode():
        chunked = small_qwen3.reference().code2wav.chunked_decode(tensor)[0, 0].numpy()
    add(stage, "r")
    send(stage, "r", codes, [40])
    assert distance(run(stage, "r")["r"].samples, chunked) < TOLERANCE


def test_pieces_agree_before_rounding(decoder: Code2Wav) -> None:
    codes = random_codes(60)
    expected = waveform(codes)
    start, samples = 0, []
    while start < 60:
        stop = decoder.next_stop(start, 60, is_last=True)
        assert stop is not None
        samples.append(decoder.decode([piece_of(decoder, codes, start, stop)])[0])
        start = stop
    assert np.abs(np.concatenate(samples) - expected).max() < 1e-5


def piece_of(decoder: Code2Wav, codes: Codes, start: int, stop: int, less: int = 0) -> Piece:
    """With ``less`` frames of what is before it than it needs."""
    first = decoder.first_needed(start) + less
    return Piece(
        codes=codes[first:stop], first=first, start=start, stop=stop, voice="ethan", seed=0
    )


def test_the_frames_before_a_piece_are_needed(decoder: Code2Wav) -> None:
    """Half of them are not enough for the same samples."""
    codes = random_codes(60)
    needed = 40 - decoder.first_needed(40)
    whole = decoder.decode([piece_of(decoder, codes, 40, 44)])[0]
    cut = decoder.decode([piece_of(decoder, codes, 40, 44, less=needed // 2)])[0]
    assert np.abs(whole - cut).max() > 1e-5


def test_the_first_sound_comes_with_the_first_frame(stage: Code2WavStage) -> None:
    codes = random_codes(5)
    add(stage, "r")
    heard = {"r": Heard()}
    sizes = []
    for number in range(4):
        unit = {"unit": pack_codes(codes[number : number + 1])}
        stage.update(StageUpdate("r", number, unit))
        before = len(heard["r"].samples)
        step(stage, heard)
        sizes.append(len(heard["r"].samples) - before)
    assert sizes == [FRAME - LAG, 0, 2 * FRAME, 0]
    stage.abort("r")


def test_requests_of_one_batch_do_not_mix(stage: Code2WavStage) -> None:
    """Some of them are alike in length, and decoded together; others are not."""
    lengths = {"a": 20, "b": 20, "c": 9, "d": 33}
    codes = {name: random_codes(size, seed) for seed, (name, size) in enumerate(lengths.items())}
    for name, frames in codes.items():
        add(stage, name)
        send(stage, name, frames, [len(frames)])
    heard = run(stage, *codes)
    for name, frames in codes.items():
        assert distance(heard[name].samples, waveform(frames)) < TOLERANCE
    assert stage.num_requests == 0


@pytest.mark.parametrize("share", [0.0, 0.02, 0.3, 0.5, 0.97])
def test_a_replay_goes_on_with_the_same_samples(stage: Code2WavStage, share: float) -> None:
    """From the last checkpoint, with the inputs that it does not count as done."""
    codes, sizes = random_codes(60), [3] * 20
    add(stage, "r")
    send(stage, "r", codes, sizes)
    heard = run(stage, "r")["r"]
    skip = int(share * len(heard.samples))
    before = [row for row in heard.rows if row.end_position <= skip]
    changes: dict[str, Any] = {}
    if before:
        row = before[-1]
        changes = {"first_unit": row.units_done, "start_position": row.done_position}
        changes |= {"checkpoint": row.checkpoint}
    add(stage, "r", skip_position=skip, **changes)
    send(stage, "r", codes, sizes, changes.get("first_unit", 0))
    rest = run(stage, "r")["r"]
    assert np.array_equal(rest.samples, heard.samples[skip:])


def test_it_keeps_only_the_frames_that_it_needs(stage: Code2WavStage) -> None:
    add(stage, "r")
    send(stage, "r", random_codes(90), [1] * 90)
    heard = run(stage, "r")["r"]
    assert [row.units_done for row in heard.rows if not row.finished][-1] > 40


def test_codes_outside_of_the_codebook_fail_their_request_alone(stage: Code2WavStage) -> None:
    bad = random_codes(4)
    bad[2, 1] = small_qwen3.NUM_CODES
    good = random_codes(6)
    add(stage, "bad")
    add(stage, "good")
    send(stage, "good", good, [6])
    with pytest.raises(StageFailedError, match="codes must be from 0 to 63"):
        stage.update(StageUpdate("bad", 0, {"unit": pack_codes(bad)}))
    stage.abort("bad")
    assert distance(run(stage, "good")["good"].samples, waveform(good)) < TOLERANCE
