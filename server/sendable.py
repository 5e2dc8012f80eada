"""What a client's JSON may hold where this server only passes it on: to a stage, and to a model."""

from __future__ import annotations

import math

from engine.errors import InvalidRequestError
from server.json_body import quoted

# What messages between processes can carry; models take no larger numbers either.
_MIN_INT, _MAX_INT = -(2**63), 2**64 - 1
_MAX_SHOWN_KEY_CHARS = 64


def check_sendable(value: object, path: str) -> None:
    """Raise ``InvalidRequestError`` that names the first place in ``value`` that cannot be sent on:
    half of a surrogate pair, an integer beyond 64 bits, a number beyond a double's range.

    ``value`` is decoded JSON, and ``path`` what errors call it.
    """
    waiting = [(path, value)]
    while waiting:
        at, found = waiting.pop()
        if isinstance(found, dict):
            for key in found:
                _check_text(key, f"a key of {at}", at)
            inner = [(f"{at}.{key[:_MAX_SHOWN_KEY_CHARS]}", found[key]) for key in found]
            waiting += reversed(inner)
        elif isinstance(found, list):
            waiting += reversed([(f"{at}[{index}]", item) for index, item in enumerate(found)])
        elif isinstance(found, str):
            _check_text(found, at, at)
        elif isinstance(found, int) and not _MIN_INT <= found <= _MAX_INT:
            raise _refuse(at, f"an integer of at most 64 bits, got {quoted(found)}")
        elif isinstance(found, float) and not math.isfinite(found):
            raise _refuse(at, f"a finite number, got {found}")


def _check_text(text: str, what: str, path: str) -> None:
    if text.isascii():
        return
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidRequestError(
            f"{what} must be well-formed Unicode, but holds a lone surrogate at character "
            f"{error.start}",
            param=path,
        ) from error


def _refuse(path: str, allowed: str) -> InvalidRequestError:
    return InvalidRequestError(f"{path} must be {allowed}", param=path)
