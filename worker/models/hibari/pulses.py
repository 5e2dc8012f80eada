"""The excitation of voiced speech: a band-limited pulse train that follows f0."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from worker.models.hibari.shape import VOICED_HZ

FloatArray = npt.NDArray[np.float32]
DoubleArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

SAMPLE_RATE: Final = 24000
HOP: Final = 300
"""Samples of a frame: 12.5 ms."""

MAX_HARMONIC_HZ: Final = 11000.0
"""Harmonics above this are left out (``dsp.pulses``)."""

NEAR_ZERO: Final = 2e-3
"""Where 2 sin(t/2) is smaller, sin((H + 1/2) t) / (2 sin(t/2)) takes its limit (``dsp.pulses``)."""

_LATER = (((np.arange(HOP) + 0.5) / HOP - 0.5) % 1.0).astype(np.float32)
"""Weight of the later of the two frames between which a sample of a hop lies."""
_EARLIER = 1 - _LATER


class PulseTrain:
    """The excitation of a sentence, generated hop by hop.

    Every harmonic below 11 kHz at unit amplitude:
    ``sum_{h <= H} cos(h t) = sin((H + 1/2) t) / (2 sin(t / 2)) - 1/2``, and zero where unvoiced.
    """

    def __init__(self, f0: FloatArray) -> None:
        self._position = 0
        self._cycles = 0.0
        self.set_curve(f0)

    def set_curve(self, f0: FloatArray) -> None:
        """A longer curve with the same beginning; of the one before, all but the last hop may
        have been taken."""
        self._f0 = np.pad(f0, 1, mode="edge")
        near = np.maximum(np.maximum(self._f0[:-2], self._f0[1:-1]), self._f0[2:])
        self.voiced: BoolArray = near > VOICED_HZ
        """[F]: whether any sample of the hop may be voiced."""

    def take(self, stop: int) -> FloatArray:
        """Samples of the hops from where the last call ended to ``stop``, [hops, 300]."""
        start, self._position = self._position, stop
        f0 = self._interpolate(start, stop)
        clipped = np.maximum(f0, np.float32(VOICED_HZ))
        phase = self._accumulate(clipped)
        pulses = np.zeros_like(f0)
        voiced = np.flatnonzero(self.voiced[start:stop])
        if voiced.size:
            rows = slice(voiced[0], voiced[-1] + 1)
            pulses[rows] = _harmonic_sum(f0[rows], clipped[rows], phase[rows])
        return pulses

    def _interpolate(self, start: int, stop: int) -> FloatArray:
        f0, half = self._f0, HOP // 2
        out = np.empty((stop - start, HOP), np.float32)
        before, here, after = (f0[start + k : stop + k, None] for k in range(3))
        np.multiply(before, _EARLIER[:half], out=out[:, :half])
        out[:, :half] += here * _LATER[:half]
        np.multiply(here, _EARLIER[half:], out=out[:, half:])
        out[:, half:] += after * _LATER[half:]
        return out

    def _accumulate(self, f0: FloatArray) -> DoubleArray:
        """Running sum of f0 in float64, carried from call to call: the same bits in any pieces."""
        total = f0.astype(np.float64).reshape(-1)
        if total.size:
            total[0] += self._cycles
            np.cumsum(total, out=total)
            self._cycles = float(total[-1])
        return total.reshape(f0.shape)


def _harmonic_sum(f0: FloatArray, clipped: FloatArray, phase: DoubleArray) -> FloatArray:
    phase *= 1 / SAMPLE_RATE
    phase -= np.floor(phase)
    phase *= np.pi
    half_turn = phase.astype(np.float32)
    order = np.floor(np.float32(MAX_HARMONIC_HZ) / clipped)
    order += np.float32(0.5)
    divisor = np.sin(half_turn)
    divisor *= 2
    pulses: FloatArray = order * half_turn
    pulses *= 2
    np.sin(pulses, out=pulses)
    at_pulse = np.abs(divisor) <= NEAR_ZERO
    np.copyto(divisor, 1, where=at_pulse)
    pulses /= divisor
    np.copyto(pulses, order, where=at_pulse)
    pulses -= np.float32(0.5)
    pulses *= f0 > VOICED_HZ
    return pulses
