"""What a client's prompt for speech may hold: the same for every model that reads a text."""

from __future__ import annotations

from engine.errors import InvalidRequestError
from engine.messages import Prompt

_CLIENT_KEYS = frozenset({"text", "voice", "speed", "language", "instructions"})
# The engine's own, and what it adds to segments.
_PROMPT_KEYS = _CLIENT_KEYS | {"request_id", "resumable", "text_offset"}


def check_keys(prompt: Prompt) -> None:
    """Raises ``InvalidRequestError`` for a key that no such prompt has."""
    unknown = sorted(prompt.keys() - _PROMPT_KEYS)
    if unknown:
        known = ", ".join(sorted(_CLIENT_KEYS))
        raise InvalidRequestError(
            f"unknown prompt key {unknown[0]!r}; this model knows: {known}", param=unknown[0]
        )


def text_of(prompt: Prompt) -> str:
    """The text. Raises ``InvalidRequestError`` if there is none."""
    text = prompt.get("text")
    if not isinstance(text, str):
        raise InvalidRequestError("text must be a string", param="input")
    return text
