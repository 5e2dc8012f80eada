"""What an ElevenLabs socket sends, as JSON objects."""

from __future__ import annotations

import base64
from typing import Any

from engine.errors import OverloadedError, UnavailableError, VoxloomError
from server.errors import answer_for
from server.sessions.char_times import CharTimes, in_ms

# RFC 6455, section 7.4.1, and "try again later" of its registry.
POLICY_VIOLATION, INTERNAL_ERROR, TRY_AGAIN_LATER = 1008, 1011, 1013


def audio_event(
    name: str | None, data: bytes | memoryview, alignment: dict[str, Any] | None
) -> dict[str, Any]:
    """A piece of audio, and the characters that go with it.

    What is spoken is told in the characters that were written: both alignments are the same.
    """
    return {
        "audio": base64.b64encode(data).decode("ascii"),
        "isFinal": None,
        "normalizedAlignment": alignment,
        "alignment": alignment,
        **_name(name),
    }


def final_event(name: str | None) -> dict[str, Any]:
    """No audio of the context follows."""
    return {
        "audio": None,
        "isFinal": True,
        "normalizedAlignment": None,
        "alignment": None,
        **_name(name),
    }


def error_event(error: VoxloomError, name: str | None = None) -> dict[str, Any]:
    """``message``, ``error`` (a word) and ``code`` (of the close that follows, or would)."""
    event: dict[str, Any] = {
        "message": error.message,
        "error": error.code,
        "code": close_code(error),
        **_name(name),
    }
    if error.param is not None:
        event["param"] = error.param
    if isinstance(error, OverloadedError):
        event["retry_after_s"] = round(error.retry_after_s, 1)
    return event


def close_code(error: VoxloomError) -> int:
    """The client's fault, one that passes, or ours."""
    if isinstance(error, OverloadedError | UnavailableError):
        return TRY_AGAIN_LATER
    return INTERNAL_ERROR if answer_for(error).status >= 500 else POLICY_VIOLATION


def alignment_of(times: CharTimes | None, sample_rate: int, origin: int) -> dict[str, Any] | None:
    """Characters with their times in ms, counted from the sample ``origin``."""
    if times is None:
        return None
    rows = list(in_ms(times, sample_rate, origin))
    return {
        "chars": [char for char, _, _ in rows],
        "charStartTimesMs": [start_ms for _, start_ms, _ in rows],
        "charDurationsMs": [duration_ms for _, _, duration_ms in rows],
    }


def _name(name: str | None) -> dict[str, Any]:
    return {} if name is None else {"contextId": name}
