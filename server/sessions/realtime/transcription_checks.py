"""The fields of ``audio.input.transcription``: how turns are to be written down."""

from __future__ import annotations

import re
from typing import Any

from server.sessions.realtime.checks import Check, bad_value, list_of, one_of, optional, text

_MAX_MODEL_CHARS = 256
_MAX_PROMPT_CHARS = 4096
# A recogniser takes no more: a hundred hints, of ten thousand characters in all.
_MAX_HINTS, _MAX_KEYWORD_CHARS = 100, 100


def _check_language(value: Any, path: str) -> str:
    """A code or a tag, by its form; which there are the recogniser knows."""
    tag: str = text(35)(value, path)
    if not re.fullmatch(r"[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})*", tag):
        raise bad_value(path, "a language code such as 'en'", value)
    return tag


def _check_choice(value: Any, path: str) -> str | None:
    """An empty text clears, as it does elsewhere in a session."""
    return None if value in (None, "") else _check_language(value, path)


TRANSCRIPTION: dict[str, Check] = {
    "model": optional(text(_MAX_MODEL_CHARS)),
    "language": _check_choice,
    "languages": optional(list_of(_check_language, _MAX_HINTS)),
    "prompt": optional(text(_MAX_PROMPT_CHARS)),
    "keywords": optional(list_of(text(_MAX_KEYWORD_CHARS), _MAX_HINTS)),
    # Taken and shown: words come as soon as a turn is over, and nothing waits for better ones.
    "delay": optional(one_of("minimal", "low", "medium", "high", "xhigh")),
}
