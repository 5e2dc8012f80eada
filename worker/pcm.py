"""Samples as they leave a stage."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Int16Array: TypeAlias = npt.NDArray[np.int16]


def to_int16(samples: npt.NDArray[np.float32]) -> Int16Array:
    """float32 in -1..1 to int16, rounded; what is beyond is clipped, never wrapped."""
    scaled = np.rint(samples * np.float32(32767.0))
    clipped: Int16Array = np.clip(scaled, -32768, 32767).astype(np.int16)
    return clipped
