"""What pitch a phoneme has: the same measure for what the talker learns and for what it says."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from worker.models.hibari_talker.tokens import LOWEST_HZ

FloatArray = npt.NDArray[np.float32]

VOICED_SHARE = 0.5
"""A phoneme has a pitch if so many of its frames have one."""


def phoneme_pitches(durations: npt.NDArray[np.int32], f0: FloatArray) -> FloatArray:
    """The median pitch of each phoneme, in semitones above 70 Hz; NaN if it is unvoiced.

    Args:
        durations: [L] in units of 25 ms.
        f0: [2 * sum(durations)] Hz.
    """
    ends = 2 * np.cumsum(durations)
    pitches = np.full(durations.size, np.nan, np.float32)
    for index, (start, end) in enumerate(zip(ends - 2 * durations, ends, strict=True)):
        voiced = f0[start:end][f0[start:end] > LOWEST_HZ]
        if voiced.size >= VOICED_SHARE * (end - start):
            pitches[index] = 12 * math.log2(float(np.median(voiced)) / LOWEST_HZ)
    return pitches
