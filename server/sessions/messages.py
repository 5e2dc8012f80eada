"""From a text frame to the type and the fields of a message."""

from __future__ import annotations

from typing import Any

from engine.errors import InvalidRequestError, PayloadTooLargeError
from server.json_body import decode_object, quoted
from server.schemas.speech_socket import MESSAGE_TYPES


def parse_message(text: str, max_chars: int, name: str) -> tuple[str, dict[str, Any]]:
    """The message's type, one of ``MESSAGE_TYPES``, and its object.

    ``name`` says what was expected. Raises ``PayloadTooLargeError`` or ``InvalidRequestError``.
    """
    if len(text) > max_chars:
        raise PayloadTooLargeError(f"{name} too large: it may hold {max_chars} characters")
    data = decode_object(text.encode("utf-8", "surrogatepass"), "the message")
    kind = data.get("type")
    if not isinstance(kind, str) or kind not in MESSAGE_TYPES:
        known = ", ".join(MESSAGE_TYPES)
        raise InvalidRequestError(
            f"type must be one of {known}, got {quoted(kind)}", param="type", code="unknown_type"
        )
    return kind, data
