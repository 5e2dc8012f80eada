"""Spectra to samples, a few frames at a time.

The same signal model as hibari's ``dsp.synth``: a band-limited pulse train filtered by the harmonic
branch, plus shaped noise, plus a free-phase branch, through one inverse STFT (n_fft 1200, hop 300,
Hann, 24 kHz). Differences:

- State is carried (pulse phase, pulses and frames that still overlap), so that a sentence can be
  synthesised in any pieces with the same bits.
- The noise of a frame depends on the seed and the frame's index alone.
- The harmonic branch is only computed where a voiced sample is in the frame's window.
- numpy alone, in float32.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from worker.models.hibari.decoder import Spectra
from worker.models.hibari.graphs import NUM_BINS
from worker.models.hibari.noise import noise_at, noise_offsets
from worker.models.hibari.pulses import HOP, PulseTrain
from worker.models.hibari.shape import NEUTRAL, VoiceShape
from worker.models.hibari.spectral_shape import SpectralShape

FloatArray = npt.NDArray[np.float32]

N_FFT: Final = 1200
OVERLAP: Final = N_FFT // HOP
"""Frames that overlap in a sample."""

LOOKAHEAD: Final = 2
"""Frames that must follow a hop's own frame before its samples are final."""


_HALF = N_FFT // 2
_WINDOW = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(N_FFT) / N_FFT)).astype(np.float32)
_WINDOW_SUM = np.float32(1.5)
"""Sum of the squared Hann windows that overlap in a sample."""
_SYNTHESIS_WINDOW = _WINDOW / _WINDOW_SUM
# A unit cosine has magnitude 1 in the pulses' STFT when the window is divided by n_fft / 4. The
# factor n_fft / 4 which the transform in _hartley leaves out cancels that, but for sqrt(1 / 2).
_ANALYSIS_WINDOW = np.ascontiguousarray(_WINDOW[1:_HALF] * np.float32(np.sqrt(0.5) * 2))
_ANALYSIS_PEAK = np.float32(np.sqrt(0.5) * 4)


def _hartley(windows: FloatArray) -> FloatArray:
    """Rows [n, 1200] -> ``Re X[k] + Im X[k]`` of the Hann-windowed STFT X, times sqrt(2).

    numpy's inverse real transform is about four times as fast as its forward one, so the forward
    one is made from it: with the even part of x as the real and the odd part as the imaginary
    spectrum it returns the Hartley transform, of which k and 1200 - k hold both parts of X[k].
    """
    early, late = windows[:, 1:_HALF], windows[:, :_HALF:-1]
    num_rows = windows.shape[0]
    folded = np.empty((num_rows, NUM_BINS), np.complex64)
    part = early + late
    np.multiply(part, _ANALYSIS_WINDOW, out=folded.real[:, 1:_HALF])
    np.subtract(early, late, out=part)
    np.multiply(part, _ANALYSIS_WINDOW, out=folded.imag[:, 1:_HALF])
    folded[:, 0] = 0
    folded[:, _HALF] = windows[:, _HALF] * _ANALYSIS_PEAK
    transform = np.empty((num_rows, N_FFT), np.float32)
    _inverse_transform(folded, transform)
    return transform


def _inverse_transform(bins: npt.NDArray[np.complex64], out: FloatArray) -> None:
    """[n, 601] -> [n, 1200]. numpy keeps float32; its type stubs know float64 alone."""
    np.fft.irfft(bins, n=N_FFT, axis=1, out=out)  # type: ignore[arg-type]


class _Excitation:
    """STFT of the pulse train, frame by frame, with reflection at the sentence's ends."""

    def __init__(self, f0: FloatArray) -> None:
        self._train = PulseTrain(f0)
        self._samples = np.zeros(0, np.float32)
        self._first_hop = -LOOKAHEAD
        self._hops = 0
        self._lay_out(f0)

    def set_curve(self, f0: FloatArray) -> None:
        """A longer curve with the same beginning."""
        self._train.set_curve(f0)
        self._lay_out(f0)

    def _lay_out(self, f0: FloatArray) -> None:
        self._num_frames = f0.size
        voiced = np.pad(self._train.voiced, (LOOKAHEAD, 1), mode="edge")
        windows = np.lib.stride_tricks.sliding_window_view(voiced, OVERLAP)
        self._harmonic = np.flatnonzero(windows.any(axis=1))

    def runs(self, start: int, stop: int) -> list[tuple[int, int]]:
        """Ranges of frames from start to stop that have harmonics."""
        low, high = np.searchsorted(self._harmonic, (start, stop))
        frames = self._harmonic[low:high]
        if not frames.size:
            return []
        breaks = np.flatnonzero(np.diff(frames) > 1)
        firsts = frames[np.concatenate(([0], breaks + 1))]
        lasts = frames[np.concatenate((breaks, [-1]))]
        return [(int(a), int(b) + 1) for a, b in zip(firsts, lasts, strict=True)]

    def advance(self, start: int, stop: int) -> None:
        """Make the samples ready for the frames from ``start`` to ``stop``."""
        last = self._num_frames
        pieces = [self._samples[(start - LOOKAHEAD - self._first_hop) * HOP :]]
        until = min(max(stop + 1, OVERLAP - 1), last)
        new = self._train.take(until).reshape(-1)
        if self._hops == 0:
            pieces = [new[_HALF:0:-1]]
            self._first_hop = -LOOKAHEAD
        else:
            self._first_hop = start - LOOKAHEAD
        pieces.append(new)
        self._hops = until
        self._samples = np.concatenate(pieces)
        if stop == last:
            mirrored = self._samples[-2 : -2 - HOP : -1]
            self._samples = np.concatenate((self._samples, mirrored))

    def transform(self, start: int, stop: int) -> FloatArray:
        """``_hartley`` [n, 1200] of frames that ``advance`` made ready."""
        first = (start - LOOKAHEAD - self._first_hop) * HOP
        last = first + (stop - start - 1) * HOP + N_FFT
        windows = np.lib.stride_tricks.sliding_window_view(self._samples[first:last], N_FFT)
        return _hartley(windows[::HOP])


class VocoderStream:
    """Synthesises one sentence from its first frame to its last.

    Args:
        f0: [F] Hz, F at least 4.
        seed: of the noise.
        shape: changes to the spectrum.
        skip_frames: frames at the beginning whose samples are left out.
    """

    def __init__(
        self, f0: FloatArray, seed: int, shape: VoiceShape = NEUTRAL, skip_frames: int = 0
    ) -> None:
        self._shape = SpectralShape.of(shape)
        self._num_frames = f0.size
        self._skip = skip_frames
        self._seed = seed
        self._excitation = _Excitation(f0)
        self._offsets = noise_offsets(seed, f0.size)
        self._position = 0
        self._tail = np.zeros((OVERLAP - 1, N_FFT), np.float32)

    def extend(self, f0: FloatArray) -> None:
        """More of the sentence is known: ``f0`` [F] is a longer curve with the same beginning.

        Of the curve before, all but the last four frames may have been pushed.
        """
        self._num_frames = f0.size
        self._excitation.set_curve(f0)
        self._offsets = noise_offsets(self._seed, f0.size)

    def push(self, spectra: Spectra) -> FloatArray:
        """Take the next frames; returns the samples that became final, perhaps none."""
        start = self._position
        stop = self._position = start + spectra.free_phase.shape[0]
        if start == stop:
            return np.zeros(0, np.float32)
        self._excitation.advance(start, stop)
        bins = self._combine(spectra, start, stop)
        frames = np.empty((stop - start + OVERLAP - 1, N_FFT), np.float32)
        frames[: OVERLAP - 1] = self._tail
        _inverse_transform(bins, frames[OVERLAP - 1 :])
        frames[OVERLAP - 1 :] *= _SYNTHESIS_WINDOW
        self._tail = frames[1 - OVERLAP :].copy()
        return self._overlap(frames, start, stop)

    def _combine(self, spectra: Spectra, start: int, stop: int) -> npt.NDArray[np.complex64]:
        magnitude = spectra.magnitude
        if self._shape is not None:
            magnitude = self._shape.apply(magnitude)
        harmonic, noise, free = (
            magnitude[:, first : first + NUM_BINS] for first in range(0, 3 * NUM_BINS, NUM_BINS)
        )
        real, imaginary = np.cos(spectra.free_phase), np.sin(spectra.free_phase)
        real *= free
        imaginary *= free
        for first, last in self._excitation.runs(start, stop):
            rows = slice(first - start, last - start)
            pulses = self._excitation.transform(first, last)
            phase = spectra.harmonic_phase[rows] * np.float32(np.pi)
            _add_filtered(pulses, harmonic[rows], phase, real[rows], imaginary[rows])
        random = noise_at(self._offsets[start:stop])
        bins = np.empty(real.shape, np.complex64)
        for part, plane, z in (
            (real, bins.real, random[:, :NUM_BINS]),
            (imaginary, bins.imag, random[:, NUM_BINS:]),
        ):
            z *= noise
            np.add(part, z, out=plane)
        return bins

    def _overlap(self, frames: FloatArray, start: int, stop: int) -> FloatArray:
        """Overlap-add of the frames before ``stop``, always in the same order."""
        if stop == self._num_frames:
            beyond = np.zeros((LOOKAHEAD, N_FFT), np.float32)
            frames = np.concatenate((frames, beyond))
        hops = frames.reshape(-1, OVERLAP, HOP)
        num_hops = hops.shape[0] - OVERLAP + 1
        total = hops[3:, 0] + hops[2:-1, 1]
        total += hops[1:-2, 2]
        total += hops[:-3, 3]
        for row in range(num_hops):
            if start + row < OVERLAP - 1 or start + row >= self._num_frames:
                total[row] *= _edge_gain(start + row, self._num_frames)
        first = max(self._skip + LOOKAHEAD - start, 0)
        return total[first:].reshape(-1)


def _add_filtered(
    hartley: FloatArray,
    magnitude: FloatArray,
    phase: FloatArray,
    real: FloatArray,
    imaginary: FloatArray,
) -> None:
    """Add ``X * magnitude * exp(i phase)`` to the parts, X given by its Hartley transform H.

    With a = phase + pi / 4 the product is, times sqrt(2),
    ``H[k] cos a + H[-k] sin a + i (H[k] sin a - H[-k] cos a)``.
    """
    phase += np.float32(np.pi / 4)
    cosine, sine = np.cos(phase), np.sin(phase, out=phase)
    cosine *= magnitude
    sine *= magnitude
    here = hartley[:, :NUM_BINS]
    mirrored = np.empty_like(cosine)
    mirrored[:, 0] = hartley[:, 0]
    mirrored[:, 1:] = hartley[:, : _HALF - 1 : -1]
    real += here * cosine
    imaginary += here * sine
    sine *= mirrored
    cosine *= mirrored
    real += sine
    imaginary -= cosine


def _edge_gain(row: int, num_frames: int) -> FloatArray:
    """Correction where fewer frames overlap than elsewhere; ``row`` counts from 2 hops before 0."""
    squares = (_WINDOW * _WINDOW).reshape(OVERLAP, HOP)
    present = [k for k in range(OVERLAP) if 0 <= row - k < num_frames]
    total = squares[present].sum(axis=0, dtype=np.float32)
    return np.asarray(_WINDOW_SUM / np.maximum(total, np.float32(1e-11)), np.float32)
