"""A sentence whose prosody comes in pieces sounds, to the bit, like one that was known at once."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.worker.models.hibari import bundled
from worker.models.hibari.sentence_stream import SentenceStream
from worker.models.hibari.shape import NEUTRAL, VoiceShape

DEEP = VoiceShape(pitch_ratio=0.7, formant_ratio=0.85, tilt_db=-3, noise_db=2)
LIVELY = VoiceShape(pitch_range=1.6)
MEAN_HZ = 190.0


def begin(shape: VoiceShape, seed: int = 3) -> SentenceStream:
    ids = bundled.ids(bundled.LONG)
    return bundled.code2wav().begin(ids, seed=seed, shape=shape, mean_hz=MEAN_HZ)


def extend(stream: SentenceStream, start: int, stop: int, skip_frames: int = 0) -> None:
    """The phonemes from ``start`` to ``stop`` of the long sentence."""
    whole = bundled.frames(bundled.LONG)
    ends = 2 * np.concatenate([[0], np.cumsum(whole.durations)])
    frames = slice(ends[start], ends[stop])
    prosody = (whole.durations[start:stop], whole.f0[frames], whole.energy[frames])
    stream.extend(*prosody, skip_frames=skip_frames)


def at_once(shape: VoiceShape, skip_frames: int) -> bundled.FloatArray:
    stream = begin(shape)
    extend(stream, 0, bundled.ids(bundled.LONG).size, skip_frames)
    return stream.step(stream.num_frames)


@settings(max_examples=12, deadline=None)
@given(
    cuts=st.sets(st.integers(1, 80), max_size=8),
    steps=st.lists(st.integers(1, 90), min_size=1, max_size=6),
    shape=st.sampled_from([NEUTRAL, DEEP, LIVELY]),
    skip_frames=st.sampled_from([0, 20]),
)
def test_any_pieces_have_the_bits_of_the_whole(
    cuts: set[int], steps: list[int], shape: VoiceShape, skip_frames: int
) -> None:
    num_phonemes = bundled.ids(bundled.LONG).size
    bounds = [0, *sorted(cut for cut in cuts if cut < num_phonemes), num_phonemes]
    stream, taken, turn = begin(shape), [np.zeros(0, np.float32)], 0
    for start, stop in itertools.pairwise(bounds):
        extend(stream, start, stop, skip_frames if start == 0 else 0)
        num_stepped = sum(steps[n % len(steps)] for n in range(turn))
        while num_stepped + steps[turn % len(steps)] <= stream.num_ready_frames:
            taken.append(stream.step(steps[turn % len(steps)]))
            num_stepped += steps[turn % len(steps)]
            turn += 1
    assert stream.is_whole
    taken.append(stream.step(stream.num_frames))
    assert stream.finished
    assert np.array_equal(np.concatenate(taken), at_once(shape, skip_frames))


def test_frames_wait_for_the_three_that_follow_them() -> None:
    stream = begin(NEUTRAL)
    assert stream.num_ready_frames == 0
    extend(stream, 0, 20)
    assert stream.num_ready_frames == stream.num_frames - 3
    with pytest.raises(ValueError, match=f"at most {stream.num_ready_frames}"):
        stream.step(stream.num_ready_frames + 1)
    extend(stream, 20, bundled.ids(bundled.LONG).size)
    assert stream.num_ready_frames == stream.num_frames


def test_bad_pieces_are_refused_by_name() -> None:
    stream = begin(NEUTRAL)
    with pytest.raises(ValueError, match="must be extended before"):
        stream.step(1)
    with pytest.raises(ValueError, match="first piece must have at least 4 frames"):
        stream.extend(np.ones(1, np.int32), np.zeros(2, np.float32), np.zeros(2, np.float32))
    extend(stream, 0, 80)
    with pytest.raises(ValueError, match="skip_frames must come with the first piece"):
        extend(stream, 80, 81, skip_frames=1)
    room = bundled.ids(bundled.LONG).size - 80
    with pytest.raises(ValueError, match=f"durations must be 1 to {room} values"):
        extend(stream, 0, 80)
    with pytest.raises(ValueError, match="energy must be 2 finite values"):
        stream.extend(np.ones(1, np.int32), np.zeros(2, np.float32), np.full(2, np.nan, np.float32))
