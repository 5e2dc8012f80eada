"""Resampling of live audio that holds nothing back.

A library's resampler gives out its samples in blocks, tens of milliseconds late at 24 kHz and over
a hundred at 8 kHz. This one gives what there is: its sound is a millisecond or two late, never its
count.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

OUTPUT_RATE = 16_000
# Kaiser's parameter for 60 dB of attenuation.
_KAISER_BETA = 5.65


class _Plan(NamedTuple):
    """Blocks of input and of output, the samples heard on each side, the band in Hz that is kept.

    Speech has little above it, and what is between it and half the lower rate fades.
    """

    num_in: int
    num_out: int
    reach: int
    band_hz: float


_PLANS = {24_000: _Plan(3, 2, 24, 7400.0), 8_000: _Plan(1, 2, 16, 3700.0)}


class LiveResampler:
    """One stream, from 8 or 24 kHz to 16 kHz. Raises ``KeyError`` for another rate."""

    def __init__(self, rate: int) -> None:
        self._plan = _PLANS[rate]
        self._filters = _filters(rate)
        self._held = np.zeros(len(self._filters) - self._plan.num_in, np.float32)

    def feed(self, samples: Floats) -> Floats:
        """``samples`` float32 [n]; what is known of the output, float32 [n * 16000 / rate].

        How a stream is cut into pieces changes nothing but rounding.
        """
        joined = np.concatenate([self._held, samples])
        num_in, size = self._plan.num_in, len(self._filters)
        num_blocks = (len(joined) - size) // num_in + 1
        if num_blocks <= 0:
            self._held = joined
            return np.zeros(0, np.float32)
        windows = np.lib.stride_tricks.sliding_window_view(joined, size)[::num_in]
        self._held = joined[num_blocks * num_in :]
        output: Floats = (windows @ self._filters).reshape(-1)
        return output


@cache
def _filters(rate: int) -> Floats:
    """A windowed sinc for each output of a block, float32 [inputs heard, num_out]."""
    plan = _PLANS[rate]
    size = 2 * plan.reach + plan.num_in
    centres = plan.reach + np.arange(plan.num_out) * plan.num_in / plan.num_out
    distances = np.arange(size)[:, None] - centres
    inside = np.clip(1 - (distances / plan.reach) ** 2, 0, None)
    window = np.i0(_KAISER_BETA * np.sqrt(inside)) * (np.abs(distances) <= plan.reach)
    taps = window * np.sinc(distances * 2 * plan.band_hz / rate)
    return np.asarray(taps / taps.sum(axis=0), np.float32)
