"""Tells a vLLM that hangs from one that has nothing to do."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Self


class Progress:
    """Counts those who wait for tokens; any token, of whichever request, is progress."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._num_waiting = 0
        self._since = 0.0

    @property
    def silent_s(self) -> float:
        """For how long nothing has come although somebody waits."""
        return self._clock() - self._since if self._num_waiting else 0.0

    def __enter__(self) -> Self:
        """Around a wait for tokens, of as many as wait at once."""
        if self._num_waiting == 0:
            self._since = self._clock()
        self._num_waiting += 1
        return self

    def __exit__(self, *_error: object) -> None:
        self._num_waiting -= 1
        self._since = self._clock()
