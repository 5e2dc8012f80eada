"""Segments of audio: what stages can read, and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine.audio_segments import MAX_SEGMENT_SAMPLES, checked_audio
from engine.errors import InvalidRequestError
from engine.input_processor import InputProcessor
from engine.pipeline import load_pipeline

GOOD = np.zeros(160, np.float32)


@pytest.mark.parametrize(
    "segment", [{}, {"audio": GOOD}, {"audio": GOOD, "first_sample": 5}, {"clear": True}]
)
def test_audio_and_the_end_of_audio_pass(segment: dict[str, Any]) -> None:
    assert checked_audio(segment) == segment


@pytest.mark.parametrize(
    ("segment", "message"),
    [
        ({"text": "a"}, "unknown key 'text'"),
        ({"audio": [0.0]}, "float32"),
        ({"audio": GOOD.astype(np.float64)}, "float32"),
        ({"audio": GOOD.reshape(1, -1)}, "float32"),
        ({"audio": np.zeros(MAX_SEGMENT_SAMPLES + 1, np.float32)}, "at most"),
        ({"audio": GOOD + np.nan}, "finite"),
        ({"audio": GOOD, "first_sample": -1}, "first_sample"),
        ({"audio": GOOD, "first_sample": 1.5}, "first_sample"),
        ({"audio": GOOD, "clear": 1}, "clear"),
    ],
)
def test_anything_else_is_refused(segment: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        checked_audio(segment)


def test_each_pipeline_takes_the_segments_of_its_own_kind() -> None:
    hears = InputProcessor(load_pipeline("transcribe"))
    speaks = InputProcessor(load_pipeline("sine"))

    assert hears.process_update({"audio": GOOD}, 0)["audio"] is GOOD
    with pytest.raises(InvalidRequestError):
        hears.process_update("some text", 0)
    with pytest.raises(InvalidRequestError):
        speaks.process_update({"audio": GOOD}, 0)
