"""Checks of the fields of a client's event: each returns the value, or names field and rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from engine.errors import InvalidRequestError
from server.json_body import quoted
from server.sendable import check_sendable

Check: TypeAlias = Callable[[Any, str], Any]

# Of a field that is only kept: each session.updated shows it, and some clients end a connection at
# a message of 1 MiB.
_MAX_KEPT_CHARS = 64_000


def bad_value(path: str, allowed: str, got: object) -> InvalidRequestError:
    return InvalidRequestError(f"'{path}' must be {allowed}, got {quoted(got)}.", param=path)


def missing(path: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"Missing required parameter: '{path}'.", param=path, code="missing_required_parameter"
    )


def required(data: dict[str, Any], name: str) -> Any:
    """A field that an event must have."""
    if data.get(name) is None:
        raise missing(name)
    return data[name]


def anything(value: Any, path: str) -> Any:
    """Accepted and kept, but not used by this server; it must be possible to show it again."""
    check_sendable(value, path)
    waiting, num_chars = [value], 0
    while waiting:
        found = waiting.pop()
        if isinstance(found, dict):
            waiting += [*found.keys(), *found.values()]
        elif isinstance(found, list):
            waiting += found
        num_chars += len(found) if isinstance(found, str) else 1
        if num_chars > _MAX_KEPT_CHARS:
            raise bad_value(path, f"of at most {_MAX_KEPT_CHARS} characters", value)
    return value


def is_object(value: Any, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise bad_value(path, "an object", value)
    return value


def is_bool(value: Any, path: str) -> bool:
    if not isinstance(value, bool):
        raise bad_value(path, "true or false", value)
    return value


def text(max_chars: int) -> Check:
    """A string that can be sent on: no NUL, no half of a surrogate pair."""

    def check(value: Any, path: str) -> str:
        if not isinstance(value, str) or len(value) > max_chars:
            raise bad_value(path, f"a string of at most {max_chars} characters", value)
        if "\x00" in value or not _is_unicode(value):
            raise bad_value(path, "well-formed Unicode without NUL", value)
        return value

    return check


def _is_unicode(value: str) -> bool:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def one_of(*allowed: str) -> Check:
    def check(value: Any, path: str) -> str:
        if not isinstance(value, str) or value not in allowed:
            raise bad_value(path, f"one of {', '.join(allowed)}", value)
        return value

    return check


def number(low: float, high: float, *, whole: bool = False) -> Check:
    allowed = f"a {'whole ' if whole else ''}number from {low:.15g} to {high:.15g}"

    def check(value: Any, path: str) -> float | int:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not low <= value <= high:
            raise bad_value(path, allowed, value)
        if whole and value != int(value):
            raise bad_value(path, allowed, value)
        return int(value) if whole else value

    return check


def optional(check: Check) -> Check:
    return lambda value, path: None if value is None else check(value, path)


def list_of(check: Check, max_items: int) -> Check:
    def check_list(value: Any, path: str) -> list[Any]:
        if not isinstance(value, list) or len(value) > max_items:
            raise bad_value(path, f"a list of at most {max_items} items", value)
        return [check(item, f"{path}[{index}]") for index, item in enumerate(value)]

    return check_list


def fields(table: dict[str, Check], required: Sequence[str] = ()) -> Check:
    """An object: known fields are checked, others dropped (clients send more than they must)."""

    def check(value: Any, path: str) -> dict[str, Any]:
        data = is_object(value, path)
        for name in required:
            if data.get(name) is None:
                raise missing(f"{path}.{name}")
        return {
            name: known(data[name], f"{path}.{name}")
            for name, known in table.items()
            if name in data
        }

    return check
