"""Incremental sample-rate conversion with exact total lengths."""

import numpy as np
import soxr
from numpy.typing import NDArray

Samples = NDArray[np.int16]

_INT16 = np.iinfo(np.int16)


def num_resampled(num_samples: int, source_rate: int, sample_rate: int) -> int:
    """How many samples ``num_samples`` at ``source_rate`` become at ``sample_rate`` (Hz)."""
    return round(num_samples * sample_rate / source_rate)


class Resampler:
    """Converts mono int16 from ``source_rate`` to ``sample_rate`` (Hz), which differ.

    The result does not depend on how the input is cut. It lags the input by up to 40 ms (80 ms down
    to 8000 Hz); `finish` brings the total to exactly `num_resampled` of the input.
    """

    def __init__(self, source_rate: int, sample_rate: int) -> None:
        self._source_rate = source_rate
        self._sample_rate = sample_rate
        self._num_in = 0
        self._num_out = 0
        # float32 inside: the int16 mode dithers, and its noise would depend on the cuts.
        self._stream = soxr.ResampleStream(source_rate, sample_rate, 1, dtype="float32")

    def write(self, samples: Samples) -> Samples:
        """The output that ``samples``, shape [num], completes, shape [num]; may be empty."""
        self._num_in += samples.size
        return self._emit(self._convert(samples, last=False))

    def finish(self) -> Samples:
        """The rest of the output, shape [num]. Call once, after the last `write`."""
        num_due = num_resampled(self._num_in, self._source_rate, self._sample_rate) - self._num_out
        tail = self._convert(np.empty(0, np.int16), last=True)[:num_due]
        return self._emit(np.pad(tail, (0, num_due - tail.size)))

    def _convert(self, samples: Samples, *, last: bool) -> Samples:
        resampled: NDArray[np.float32] = self._stream.resample_chunk(
            samples.astype(np.float32), last=last
        )
        rounded: NDArray[np.float32] = np.rint(resampled)
        return rounded.clip(_INT16.min, _INT16.max).astype(np.int16)

    def _emit(self, samples: Samples) -> Samples:
        self._num_out += samples.size
        return samples
