"""Measures of a voice that need its sound alone: pitch, formants, loudness."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyloudnorm

FloatArray = npt.NDArray[np.float32]
Envelope = npt.NDArray[np.float64]

MIN_F0_HZ, MAX_F0_HZ = 55.0, 420.0

_FRAME_S, _HOP_S = 0.050, 0.0125
# Autocorrelation at the period, of that at 0: above this a frame is surely voiced.
_VOICED = 0.6
# A frame this much below the loudest tenth is no vowel.
_MIN_LEVEL = 0.2
# Of several periods that fit almost equally the shortest is the true one.
_NEAR_BEST = 0.9

_LPC_ORDER = 26  # two per kHz and two for the slope, at 24 kHz
_MIN_FORMANT_HZ, _MAX_FORMANT_HZ = 350.0, 5500.0
_POINTS_PER_OCTAVE = 48
_SHIFTS = np.arange(0.70, 1.405, 0.01)


def loudness_lufs(audio: FloatArray, sample_rate: int) -> float:
    """Integrated loudness of mono ``audio`` [samples], ITU-R BS.1770-4."""
    meter = pyloudnorm.Meter(sample_rate)
    return float(meter.integrated_loudness(audio.astype(np.float64)))


def median_f0_hz(audio: FloatArray, sample_rate: int) -> float:
    """Median over the voiced frames of ``audio`` [samples]; nan without any.

    The period is where the frame's autocorrelation, corrected for that of its window, is greatest
    (Boersma, "Accurate short-term analysis of the fundamental frequency", 1993).
    """
    return float(np.median(voiced_f0_hz(audio, sample_rate)))


def voiced_f0_hz(audio: FloatArray, sample_rate: int) -> Envelope:
    """The pitch of each voiced frame."""
    frames = _frames(audio, sample_rate)
    similarity = _autocorrelation(frames)
    first, last = int(sample_rate / MAX_F0_HZ), int(sample_rate / MIN_F0_HZ)
    span = similarity[:, first : last + 1]
    best = span.max(axis=1)
    good_enough = span >= _NEAR_BEST * best[:, None]
    peaks = np.zeros_like(good_enough)
    peaks[:, 1:-1] = (span[:, 1:-1] >= span[:, :-2]) & (span[:, 1:-1] >= span[:, 2:])
    candidates = good_enough & peaks
    periods = candidates.argmax(axis=1) + first
    is_voiced = (best > _VOICED) & candidates.any(axis=1)
    return np.asarray(sample_rate / periods[is_voiced], np.float64)


def envelope_db(audio: FloatArray, sample_rate: int) -> Envelope:
    """The mean spectral envelope of the vowels, dB, on a logarithmic axis of frequencies.

    By linear prediction, which follows formants and not harmonics. The mean of the whole and the
    slope are taken out, so that loudness and brightness do not pass for a shift.
    """
    frames = _frames(audio, sample_rate)
    # Pre-emphasis: the slope of a voice would hide its upper formants.
    emphasised = np.diff(frames, axis=1) * np.hanning(frames.shape[1] - 1)
    size = 2 * frames.shape[1]
    power = np.abs(np.fft.rfft(emphasised, size)) ** 2
    lags = np.fft.irfft(power, axis=1)[:, : _LPC_ORDER + 1]
    grid = _grid_hz()
    steps = np.exp(-2j * np.pi * np.outer(np.arange(_LPC_ORDER + 1), grid) / sample_rate)
    spectra = [-20 * np.log10(np.abs(_predictor(lag) @ steps)) for lag in lags]
    mean = np.mean(spectra, axis=0)
    line = np.polyfit(np.log2(grid), mean, 1)
    return np.asarray(mean - np.polyval(line, np.log2(grid)), np.float64)


def formant_shift(original: Envelope, other: Envelope) -> float:
    """The factor on the frequencies of ``original`` at which it resembles ``other`` most."""
    octaves = np.log2(_grid_hz())

    def likeness(shift: float) -> float:
        moved = np.interp(octaves - np.log2(shift), octaves, original)
        inner = (octaves - np.log2(shift) >= octaves[0]) & (octaves - np.log2(shift) <= octaves[-1])
        return float(np.corrcoef(moved[inner], other[inner])[0, 1])

    return float(max(_SHIFTS.tolist(), key=likeness))


def _grid_hz() -> Envelope:
    num_octaves = np.log2(_MAX_FORMANT_HZ / _MIN_FORMANT_HZ)
    points = np.arange(int(num_octaves * _POINTS_PER_OCTAVE))
    return np.asarray(_MIN_FORMANT_HZ * 2 ** (points / _POINTS_PER_OCTAVE), np.float64)


def _frames(audio: FloatArray, sample_rate: int) -> Envelope:
    """The louder frames, [n, samples of 50 ms]."""
    size, hop = int(_FRAME_S * sample_rate), int(_HOP_S * sample_rate)
    frames = np.lib.stride_tricks.sliding_window_view(audio.astype(np.float64), size)[::hop]
    levels = np.sqrt(np.mean(frames**2, axis=1))
    loud = np.asarray(frames[levels > _MIN_LEVEL * np.quantile(levels, 0.9)], np.float64)
    return np.asarray(loud - loud.mean(axis=1, keepdims=True), np.float64)


def _autocorrelation(frames: Envelope) -> Envelope:
    """[n, lags], of the windowed frames, over that of the window; 1 at lag 0."""
    window = np.hanning(frames.shape[1])
    size = 2 * frames.shape[1]
    raw = np.fft.irfft(np.abs(np.fft.rfft(frames * window, size)) ** 2, axis=1)
    of_window = np.fft.irfft(np.abs(np.fft.rfft(window, size)) ** 2)
    half = frames.shape[1] // 2
    return np.asarray(raw[:, :half] / raw[:, :1] / (of_window[:half] / of_window[0]), np.float64)


def _predictor(lags: Envelope) -> Envelope:
    """The prediction error filter [order + 1] of an autocorrelation (normal equations)."""
    order = lags.size - 1
    index = np.abs(np.subtract.outer(np.arange(order), np.arange(order)))
    # White noise 50 dB below keeps the equations solvable.
    matrix = lags[index] + np.eye(order) * lags[0] * 1e-5
    return np.concatenate(([1.0], -np.linalg.solve(matrix, lags[1:])))
