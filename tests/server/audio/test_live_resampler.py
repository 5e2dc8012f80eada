from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.audio.live_resampler import OUTPUT_RATE, Floats, LiveResampler


def tone(hz: float, rate: int, seconds: float = 0.5) -> Floats:
    return np.sin(2 * np.pi * hz * np.arange(round(seconds * rate)) / rate).astype(np.float32)


def loudness(samples: Floats) -> float:
    """Of the middle, where the stream's begin and end are not heard."""
    middle = samples[len(samples) // 4 : -len(samples) // 4]
    return float(np.sqrt(np.mean(middle**2)))


@pytest.mark.parametrize("rate", [8_000, 24_000])
@pytest.mark.parametrize("chunk_ms", [10, 20, 100])
def test_each_piece_comes_out_as_long_as_it_went_in(rate: int, chunk_ms: int) -> None:
    resampler = LiveResampler(rate)
    num_in = num_out = 0
    for _ in range(50):
        num_in += rate * chunk_ms // 1000
        num_out += len(resampler.feed(np.zeros(rate * chunk_ms // 1000, np.float32)))
        assert abs(num_out / OUTPUT_RATE - num_in / rate) <= 3 / rate


@pytest.mark.parametrize(
    ("rate", "hz"), [(24_000, 100), (24_000, 3000), (24_000, 6500), (8_000, 100), (8_000, 3300)]
)
def test_speech_keeps_its_tones(rate: int, hz: float) -> None:
    output = LiveResampler(rate).feed(tone(hz, rate))

    spectrum = np.abs(np.fft.rfft(output * np.hanning(len(output))))
    assert abs(int(spectrum.argmax()) * OUTPUT_RATE / len(output) - hz) < 5
    assert loudness(output) == pytest.approx(np.sqrt(0.5), abs=0.02)


@pytest.mark.parametrize("hz", [9_500, 11_000])
def test_what_the_lower_rate_cannot_hold_is_not_folded_into_it(hz: float) -> None:
    assert loudness(LiveResampler(24_000).feed(tone(hz, 24_000))) < 0.003


@pytest.mark.parametrize("rate", [8_000, 24_000])
def test_a_sound_is_two_milliseconds_late_at_most(rate: int) -> None:
    click = np.zeros(rate // 10, np.float32)
    click[rate // 20] = 1.0

    output = LiveResampler(rate).feed(click)

    assert 0 <= np.abs(output).argmax() / OUTPUT_RATE - 0.05 <= 0.00201


@settings(max_examples=50, deadline=None)
@given(
    rate=st.sampled_from([8_000, 24_000]),
    sizes=st.lists(st.integers(0, 700), min_size=1, max_size=20),
)
def test_how_a_stream_is_cut_changes_nothing(rate: int, sizes: list[int]) -> None:
    audio = np.random.default_rng(0).standard_normal(sum(sizes)).astype(np.float32)
    resampler = LiveResampler(rate)

    pieces = [resampler.feed(part) for part in np.split(audio, np.cumsum(sizes)[:-1])]

    whole = LiveResampler(rate).feed(audio)
    np.testing.assert_allclose(np.concatenate(pieces), whole, atol=1e-5)


def test_another_rate_is_refused() -> None:
    with pytest.raises(KeyError):
        LiveResampler(44_100)
