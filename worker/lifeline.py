"""Ending with the process that started this one, however that one ends."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def die_with_parent(parent: int) -> None:
    """On Linux, have the kernel end this process when ``parent``, who started it, ends."""
    if sys.platform != "linux":
        return  # elsewhere the missing pings end it
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)  # it ended before the line above
