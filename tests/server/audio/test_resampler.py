import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.audio.resampler import Resampler, Samples, num_resampled

RATES = [8000, 11025, 16000, 22050, 24000, 44100, 48000]


def _sine(num_samples: int, sample_rate: int, amplitude: float = 10000) -> Samples:
    phase = 2 * np.pi * 440 * np.arange(num_samples) / sample_rate
    return (amplitude * np.sin(phase)).astype(np.int16)


def _resample(samples: Samples, source_rate: int, sample_rate: int, cuts: list[int]) -> Samples:
    resampler = Resampler(source_rate, sample_rate)
    parts = [resampler.write(part) for part in np.split(samples, cuts)]
    return np.concatenate([*parts, resampler.finish()])


@settings(max_examples=60, deadline=None)
@given(
    num_samples=st.integers(0, 6000),
    source_rate=st.sampled_from(RATES),
    sample_rate=st.integers(8000, 48000),
    cuts=st.lists(st.integers(0, 6000), max_size=8).map(sorted),
)
def test_the_length_is_exact_and_cuts_never_show(
    num_samples: int, source_rate: int, sample_rate: int, cuts: list[int]
) -> None:
    samples = _sine(num_samples, source_rate)
    whole = _resample(samples, source_rate, sample_rate, [])
    assert whole.size == num_resampled(num_samples, source_rate, sample_rate)
    assert np.array_equal(_resample(samples, source_rate, sample_rate, cuts), whole)


@pytest.mark.parametrize("sample_rate", RATES)
def test_a_tone_keeps_its_place_and_level(sample_rate: int) -> None:
    resampled = _resample(_sine(22050, 22050), 22050, sample_rate, [5000])
    inner = slice(sample_rate // 10, -sample_rate // 10)
    error = resampled.astype(float) - _sine(sample_rate, sample_rate)
    assert np.abs(error[inner]).max() < 5


def test_full_scale_input_clips_and_does_not_wrap() -> None:
    square = np.repeat(np.array([32767, -32768] * 60, np.int16), 20)
    resampled = _resample(square, 24000, 48000, [])
    middle = resampled.reshape(-1, 40)[10:-10, 10:30]
    assert (middle[0::2] > 28000).all()
    assert (middle[1::2] < -28000).all()
    assert resampled.max() == 32767
