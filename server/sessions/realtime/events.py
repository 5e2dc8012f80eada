"""From a client's message to an event: JSON, with its audio decoded where it is large."""

from __future__ import annotations

from typing import Any

from engine.errors import PayloadTooLargeError, VoxloomError
from server.base64_pieces import decode_base64
from server.large_json import SMALL_BYTES, read_object

# OpenAI's bound on the audio of one event, in base64, and something for the rest of it.
_MAX_EVENT_CHARS = 20 * 1024 * 1024 + 64 * 1024
# An error shows fewer characters of what is wrong.
_SHOWN_CHARS = 100


def is_small(message: str) -> bool:
    """Whether a message can be read in passing; a large one is for a thread."""
    return len(message) <= SMALL_BYTES


def read_event(message: str) -> dict[str, Any] | VoxloomError:
    """The event in a message, or what is wrong with it.

    The audio of a large one is bytes in the place of its base64; of audio that is broken the
    beginning is left, for the session to refuse. It needs nothing of the session, so that it can
    run beside it.
    """
    if len(message) > _MAX_EVENT_CHARS:
        return PayloadTooLargeError(
            f"The event is too large: it may hold {_MAX_EVENT_CHARS} characters."
        )
    try:
        event = read_object(message.encode("utf-8", "surrogatepass"), "the event")
    except VoxloomError as error:
        return error
    if not is_small(message):
        _decode_audio(event)
    return event


def _decode_audio(event: dict[str, Any]) -> None:
    """Where the protocol has audio, and nowhere else: a tool's schema may have such a key."""
    given = event.get("response")
    inline = given.get("input") if isinstance(given, dict) else None
    for item in (event.get("item"), *(inline if isinstance(inline, list) else ())):
        parts = item.get("content") if isinstance(item, dict) else None
        for part in parts if isinstance(parts, list) else ():
            _decode_in(part)
    _decode_in(event)


def _decode_in(holder: Any) -> None:
    if isinstance(holder, dict) and isinstance(holder.get("audio"), str):
        holder["audio"] = _decoded(holder["audio"])


def _decoded(audio: str) -> bytes | str:
    try:
        return decode_base64(audio)
    except ValueError:
        return f"{audio[:_SHOWN_CHARS]}\N{HORIZONTAL ELLIPSIS}"
