"""JSON with audio in it: large, nearly all of it a few strings in base64.

Python reads a document in one go and lets no other thread run meanwhile. So the long strings are
taken out before, piece by piece, and what is left is bounded: no step here takes longer than a
chunk of sound may wait for the event loop.
"""

from __future__ import annotations

import secrets
from typing import Any

from engine.errors import PayloadTooLargeError
from server.json_body import decode_object

# Documents up to this size are read as they are, in some milliseconds.
SMALL_BYTES = 256 * 1024
# What may be left, apart from long strings: the text of a very long conversation. It is read as
# fast as its strings are copied, but each object or item of a list takes a time of its own: so many
# take some tens of milliseconds. Commas inside of strings count as well.
MAX_REST_BYTES = 8 * 1024 * 1024
MAX_REST_MARKS = 400_000
# Strings of at least twice this size are found for certain.
_STRIDE_BYTES = 64 * 1024
_PIECE_BYTES = 1024 * 1024
_BETWEEN = b" \t\r\n:,]}"
_PLAIN = bytes(char for char in range(0x20, 0x7F) if chr(char) not in '"\\')


def read_object(data: bytes, what: str = "the body") -> dict[str, Any]:
    """As ``decode_object``, for a document of any size; more than some hundred KB on a thread.

    Raises ``InvalidRequestError``, and ``PayloadTooLargeError`` if there is too much besides long
    strings.
    """
    if len(data) <= SMALL_BYTES:
        return decode_object(data, what)
    # Nobody can know the name of a place before it is taken.
    name = secrets.token_hex(8)
    rest, taken = _take_out(data, name)
    if len(rest) > MAX_REST_BYTES or sum(map(rest.count, (b"[", b"{", b","))) > MAX_REST_MARKS:
        raise PayloadTooLargeError(
            f"{what} may hold at most {MAX_REST_BYTES} bytes, with {MAX_REST_MARKS} brackets and "
            "commas, besides long strings such as audio in base64"
        )
    found = decode_object(rest, what)
    if taken:
        _put_back(found, {f"{name}.{index}": text for index, text in enumerate(taken)})
    return found


def _take_out(data: bytes, name: str) -> tuple[bytes, list[str]]:
    """The document with names in the places of its long strings, and these."""
    rest, taken = list[bytes](), list[str]()
    done = seen = 0
    for probe in range(_STRIDE_BYTES, len(data), _STRIDE_BYTES):
        if probe < seen:
            continue
        first, last = data.rfind(b'"', seen, probe) + 1, data.find(b'"', probe)
        if last < 0:
            break
        seen = last
        if first > 0 and _is_string(data, first, last):
            rest += [data[done:first], f"{name}.{len(taken)}".encode()]
            taken.append(str(memoryview(data)[first:last], "ascii"))
            done = last
    rest.append(data[done:])
    return b"".join(rest), taken


def _is_string(data: bytes, first: int, last: int) -> bool:
    """Whether these two marks are the ends of a value that stands for itself: ASCII, no escapes.

    What lies between two strings begins with a blank or with a sign of JSON's. A string that begins
    so is not taken, though it might be.
    """
    is_key = data[last + 1 : last + 64].lstrip()[:1] == b":"
    if is_key or data[first - 2 : first - 1] == b"\\" or data[first : first + 1] in _BETWEEN:
        return False
    view = memoryview(data)
    return not any(
        bytes(view[at : min(at + _PIECE_BYTES, last)]).translate(None, _PLAIN)
        for at in range(first, last, _PIECE_BYTES)
    )


def _put_back(value: Any, taken: dict[str, str]) -> None:
    """The strings, in the places of their names."""
    level = [value]
    while level:
        below = []
        for outer in level:
            for key, inner in outer.items() if isinstance(outer, dict) else enumerate(outer):
                if isinstance(inner, str):
                    outer[key] = taken.get(inner, inner)
                elif isinstance(inner, dict | list):
                    below.append(inner)
        level = below
