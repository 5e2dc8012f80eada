"""The acoustic core as its callers see it."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.worker.models.hibari import bundled, float_reference
from worker.models.hibari.acoustic import HOP
from worker.models.hibari.shape import NEUTRAL, VoiceShape

DEEP = VoiceShape(pitch_ratio=0.7, formant_ratio=0.85, tilt_db=-3, noise_db=2, gain_db=1)

plans = st.lists(st.integers(1, 120), min_size=1, max_size=12)


@settings(max_examples=30, deadline=None)
@given(
    plan=plans,
    speed=st.sampled_from([0.5, 1.0, 4.0]),
    seed=st.sampled_from([0, -1, 2**64 + 3]),
    shape=st.sampled_from([NEUTRAL, DEEP]),
    skip_frames=st.sampled_from([0, 1, 21, 40]),
)
def test_any_pieces_have_the_bits_of_the_whole(
    plan: list[int], speed: float, seed: int, shape: VoiceShape, skip_frames: int
) -> None:
    whole = bundled.whole(bundled.SHORT, speed, seed=seed, shape=shape)
    stream = bundled.open_stream(
        bundled.SHORT, speed, seed=seed, shape=shape, skip_frames=skip_frames
    )
    pieces = bundled.take_all(stream, plan)
    assert np.array_equal(pieces, whole[HOP * skip_frames :])


def test_a_long_sentence_in_large_steps_has_the_bits_of_small_ones() -> None:
    small = bundled.take_all(bundled.open_stream(bundled.LONG), [24])
    large = bundled.take_all(bundled.open_stream(bundled.LONG), [53, 200])
    assert np.array_equal(small, large)


@pytest.mark.parametrize("speed", [0.25, 1.0, 4.0])
def test_the_number_of_samples_is_known_before_the_first_step(speed: float) -> None:
    stream = bundled.open_stream(bundled.SHORT, speed, skip_frames=10)
    expected = stream.num_samples
    assert not stream.finished
    assert bundled.take_all(stream, [33]).size == expected == HOP * (stream.num_frames - 10)


def test_steps_after_the_end_return_nothing() -> None:
    stream = bundled.open_stream(bundled.SHORT)
    stream.step(stream.num_frames)
    assert stream.finished
    assert stream.step(1).size == 0


def test_everything_may_be_skipped() -> None:
    num_frames = bundled.open_stream(bundled.SHORT).num_frames
    stream = bundled.open_stream(bundled.SHORT, skip_frames=num_frames)
    assert stream.num_samples == 0
    assert bundled.take_all(stream, [50]).size == 0


@pytest.mark.parametrize("skip_frames", [0, 16, 20])
def test_samples_lag_at_most_32_frames_behind(skip_frames: int) -> None:
    stream = bundled.open_stream(bundled.LONG, skip_frames=skip_frames)
    first = stream.step(skip_frames + 8 + 32)
    assert first.size >= 8 * HOP - 7 * HOP
    assert bundled.open_stream(bundled.LONG).step(24).size == 0


def test_seeds_change_the_noise_and_nothing_else() -> None:
    one, same, other = (bundled.whole(bundled.SHORT, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)
    assert bundled.snr_db(one, other) > 25


def test_another_process_makes_the_same_bytes() -> None:
    program = (
        "import hashlib; from tests.worker.models.hibari import bundled;"
        "print(hashlib.sha256(bundled.whole(bundled.SHORT, seed=7)).hexdigest())"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    here = hashlib.sha256(bundled.whole(bundled.SHORT, seed=7).tobytes()).hexdigest()
    assert result.stdout.strip() == here


def test_streams_on_two_threads_do_not_touch_each_other() -> None:
    texts = [bundled.SHORT, bundled.QUESTION] * 4
    alone = [bundled.whole(text) for text in texts]

    def pieces(text: str) -> bytes:
        return bundled.take_all(bundled.open_stream(text), [40]).tobytes()

    with ThreadPoolExecutor(2) as threads:
        together = list(threads.map(pieces, texts))
    assert together == [each.tobytes() for each in alone]


def test_quantisation_is_no_further_from_float_than_the_voice_file_is() -> None:
    ours, shipped = [], []
    for text in (bundled.SHORT, bundled.QUESTION, bundled.LONG):
        for speed in (0.25, 0.5, 1.0, 2.0, 4.0):
            exact = float_reference.synthesise(float_reference.spectra(text, speed), 1)
            parts = float_reference.shipped_spectra(text, speed)
            shipped.append(bundled.snr_db(exact, float_reference.synthesise(parts, 1)))
            ours.append(bundled.snr_db(exact, bundled.whole(text, speed)))
    # Measured: 32.0 dB against 30.1 on average, 29.8 against 27.6 at worst.
    assert np.mean(ours) > np.mean(shipped)
    assert min(ours) > 29


@pytest.mark.parametrize("pitch_ratio", [0.5, 2.0])
@pytest.mark.parametrize("speed", [0.25, 4.0])
def test_extreme_pitch_and_speed_stay_in_range(pitch_ratio: float, speed: float) -> None:
    shape = VoiceShape(pitch_ratio=pitch_ratio, pitch_range=2.5)
    samples = bundled.whole(bundled.QUESTION, speed, shape=shape)
    assert np.isfinite(samples).all()
    assert 0.05 < np.abs(samples).max() < 1


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("ids", np.zeros(2, np.int64)),
        ("durations", np.zeros(5, np.int32)),
        ("durations", np.ones(4, np.int32)),
        ("f0", np.zeros(3, np.float32)),
        ("f0", np.full(10, np.nan, np.float32)),
        ("energy", np.full(10, np.inf, np.float32)),
        ("skip_frames", -1),
        ("skip_frames", 11),
    ],
)
def test_bad_arguments_are_refused_by_name(field: str, value: object) -> None:
    arguments: dict[str, object] = {
        "ids": np.array([0, 50, 83, 54, 0]),
        "durations": np.ones(5, np.int32),
        "f0": np.full(10, 100, np.float32),
        "energy": np.zeros(10, np.float32),
        "skip_frames": 0,
    }
    bundled.code2wav().open(**arguments, seed=0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=f"^{field} must be"):
        bundled.code2wav().open(**(arguments | {field: value}), seed=0)  # type: ignore[arg-type]


def test_a_step_of_no_frames_is_refused() -> None:
    with pytest.raises(ValueError, match="num_frames must be at least 1"):
        bundled.open_stream(bundled.SHORT).step(0)
