"""Which frames are decoded together: a chunk and what is around it.

Where a chunk ends depends on its frames' numbers alone. A window holds all that its decoding needs,
so that any replica can decode it, in any order, after any failure.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from worker.models.lm_codec.codes import Codes
from worker.models.lm_codec.description import Description

# Length of a chunk by the time at which it begins, both in ms. A listener has audio in hand by
# then, and longer chunks cost less: each one decodes its surroundings once more.
_PLAN_MS = ((0, 80), (80, 160), (240, 320), (560, 640), (1200, 1000))


@dataclass(frozen=True, slots=True)
class Window:
    """``codes`` int32 [left + core + right frames, columns]; the core begins at ``first_frame``."""

    codes: Codes
    first_frame: int
    num_left: int
    num_core: int
    is_last: bool


class WindowCutter:
    """Takes the frames of one unit of speech as they come, gives its windows.

    Keeps only the frames that a later window needs.
    """

    def __init__(self, description: Description) -> None:
        codec = description.codec
        self._left, self._right = codec.left_frames, codec.right_frames
        self._frame_ms = description.frame_ms
        self._codes: Codes = np.zeros((0, description.num_slots), np.int32)
        self._first_kept = 0
        self._next = 0  # first frame of the next core

    def feed(self, frames: Codes) -> list[Window]:
        """Windows whose surroundings are known. One frame is held back: it may be the last."""
        self._codes = np.concatenate([self._codes, frames])
        windows = []
        while self._end > self._next:
            stop = self._next + self._chunk_frames()
            if stop + max(self._right, 1) > self._end:
                break
            windows.append(self._cut(stop))
        return windows

    def finish(self) -> list[Window]:
        """The rest; its last window says so. Empty only if there was no frame at all."""
        windows = []
        while self._next < self._end:
            windows.append(self._cut(min(self._next + self._chunk_frames(), self._end)))
        return windows

    @property
    def _end(self) -> int:
        return self._first_kept + len(self._codes)

    def _chunk_frames(self) -> int:
        start_ms = round(self._next * self._frame_ms)
        length_ms = next(length for first, length in reversed(_PLAN_MS) if start_ms >= first)
        return max(1, round(length_ms / self._frame_ms))

    def _cut(self, stop: int) -> Window:
        start, first = self._next, max(0, self._next - self._left)
        last = min(stop + self._right, self._end)
        offset = self._first_kept
        window = Window(
            codes=self._codes[first - offset : last - offset],
            first_frame=start,
            num_left=start - first,
            num_core=stop - start,
            is_last=stop == self._end,
        )
        self._next = stop
        self._first_kept = max(0, stop - self._left)
        self._codes = self._codes[self._first_kept - offset :]
        return window
