"""What shapes do to magnitudes."""

from __future__ import annotations

import numpy as np

from worker.models.hibari.shape import NEUTRAL, VoiceShape
from worker.models.hibari.spectral_shape import SpectralShape


def _applied(shape: VoiceShape, magnitude: np.ndarray) -> np.ndarray:
    spectral = SpectralShape.of(shape)
    assert spectral is not None
    return spectral.apply(magnitude)


def _peaks(bins: list[int]) -> np.ndarray:
    """One frame with a peak at a bin in each of the three parts."""
    magnitude = np.full((1, 3, 601), 0.1, np.float32)
    for part, each in enumerate(bins):
        magnitude[0, part] += np.exp(-(((np.arange(601) - each) / 6) ** 2)).astype(np.float32)
    return magnitude.reshape(1, 1803)


def test_shapes_of_pitch_alone_leave_the_spectrum_alone() -> None:
    assert SpectralShape.of(NEUTRAL) is None
    assert SpectralShape.of(VoiceShape(pitch_ratio=0.7, pitch_range=1.3)) is None


def test_formants_move_in_proportion_in_every_part() -> None:
    for ratio in (0.8, 1.25):
        shaped = _applied(VoiceShape(formant_ratio=ratio), _peaks([50, 100, 200]))
        at = shaped.reshape(3, 601).argmax(axis=1)
        assert np.abs(at - ratio * np.array([50, 100, 200])).max() <= 1


def test_tilt_is_the_gain_at_8_khz_over_that_at_500_hz() -> None:
    gain = _applied(VoiceShape(tilt_db=6), np.ones((1, 1803), np.float32)).reshape(3, 601)
    decibels = 20 * np.log10(gain)
    assert np.allclose(decibels[:, [0, 25, 100, 400, 600]], [0, 0, 3, 6, 6], atol=1e-4)


def test_breath_is_in_the_noise_alone() -> None:
    gain = _applied(VoiceShape(noise_db=6), np.ones((2, 1803), np.float32)).reshape(2, 3, 601)
    assert np.allclose(gain[:, [0, 2]], 1)
    assert np.allclose(gain[:, 1], 10 ** (6 / 20))


def test_gain_is_in_everything() -> None:
    gain = _applied(VoiceShape(gain_db=-20), np.ones((1, 1803), np.float32))
    assert np.allclose(gain, 0.1)
