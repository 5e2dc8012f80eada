"""What a ``VoiceShape`` does to the magnitudes of a frame."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from worker.models.hibari.graphs import NUM_BINS
from worker.models.hibari.shape import VoiceShape

FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.intp]

BIN_HZ = 20.0
"""Distance of two bins: 24 kHz / 1200."""

TILT_FROM_HZ, TILT_TO_HZ = 500.0, 8000.0

NUM_PARTS = 3
"""Harmonic, noise and free branch stand side by side in a row."""


@dataclass(frozen=True, slots=True)
class SpectralShape:
    """Moves and scales the bins of the three magnitudes of a frame."""

    source: IntArray | None
    """[1803] column that each column is taken from; None leaves them in place."""
    gain: FloatArray
    """[1803]"""

    @classmethod
    def of(cls, shape: VoiceShape) -> SpectralShape | None:
        """The spectral part of a shape; None if it has none."""
        spectral = (shape.formant_ratio, shape.tilt_db, shape.noise_db, shape.gain_db)
        if spectral == (1.0, 0.0, 0.0, 0.0):
            return None
        return cls(_source(shape.formant_ratio), _gain(shape))

    def apply(self, magnitude: FloatArray) -> FloatArray:
        """Shaped copy of magnitudes [n, 1803]."""
        if self.source is None:
            return magnitude * self.gain
        moved = np.take(magnitude, self.source, axis=1)
        moved *= self.gain
        return moved


def _source(formant_ratio: float) -> IntArray | None:
    """Nearest bin: bins are 20 Hz apart, an envelope does not change over 10 Hz."""
    if formant_ratio == 1:
        return None
    bins = np.rint(np.arange(NUM_BINS) / formant_ratio).astype(np.intp)
    within = np.minimum(bins, NUM_BINS - 1)
    moved: IntArray = np.concatenate([within + part * NUM_BINS for part in range(NUM_PARTS)])
    return moved


def _gain(shape: VoiceShape) -> FloatArray:
    hertz = np.maximum(np.arange(NUM_BINS) * BIN_HZ, BIN_HZ)
    octaves = np.log2(np.clip(hertz, TILT_FROM_HZ, TILT_TO_HZ) / TILT_FROM_HZ)
    tilt = shape.tilt_db * octaves / np.log2(TILT_TO_HZ / TILT_FROM_HZ) + shape.gain_db
    decibels = np.concatenate([tilt, tilt + shape.noise_db, tilt])
    return np.asarray(10 ** (decibels / 20), np.float32)
