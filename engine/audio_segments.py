"""Segments of requests whose input is audio."""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.errors import InvalidRequestError
from engine.messages import Prompt

_KEYS = frozenset({"audio", "first_sample", "clear"})
# Two minutes at 16 kHz, 8 MB: a message must not hold up those behind it.
MAX_SEGMENT_SAMPLES = 120 * 16_000


def checked_audio(segment: Prompt) -> Prompt:
    """The segment, if its stages can read it. Raises ``InvalidRequestError``.

    ``audio`` is float32 [samples], mono, at the rate that the pipeline's first stage hears, and
    ``first_sample`` its place in the request's stream; both may be left out of one that only ends
    the stream. ``clear`` forgets what has not become output, before the audio is taken in.
    """
    unknown = sorted(segment.keys() - _KEYS)
    if unknown:
        known = ", ".join(sorted(_KEYS))
        raise _refuse(f"unknown key {unknown[0]!r} in a segment of audio; known: {known}")
    if "audio" in segment:
        _check_samples(segment["audio"])
    first = segment.get("first_sample", 0)
    if not isinstance(first, int) or isinstance(first, bool) or first < 0:
        raise _refuse("first_sample must be an integer of at least 0")
    if not isinstance(segment.get("clear", False), bool):
        raise _refuse("clear must be true or false")
    return segment


def _check_samples(audio: Any) -> None:
    is_samples = isinstance(audio, np.ndarray) and audio.dtype == np.float32 and audio.ndim == 1
    if not is_samples or len(audio) > MAX_SEGMENT_SAMPLES:
        raise _refuse(f"audio must be float32 [samples], at most {MAX_SEGMENT_SAMPLES} of them")
    if not np.isfinite(audio).all():
        raise _refuse("audio must hold finite numbers only")


def _refuse(message: str) -> InvalidRequestError:
    return InvalidRequestError(message, param="prompt")
