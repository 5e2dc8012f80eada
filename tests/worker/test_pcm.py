"""Samples as they leave a stage."""

from __future__ import annotations

import numpy as np

from worker.pcm import to_int16


def test_conversion_rounds_and_clips() -> None:
    samples = np.array([0.0, 1.0, -1.0, 2.0, -2.0, 0.6 / 32767], np.float32)
    assert to_int16(samples).tolist() == [0, 32767, -32767, 32767, -32768, 1]
