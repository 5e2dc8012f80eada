"""How large a JSON schema may be that an answer is held to.

A grammar is made of it, in vLLM's process and again in ours. Within these bounds llguidance 1.7
takes some tenths of a second for that at the most; what goes beyond takes seconds or minutes (an
array of up to a million items) or cannot be followed at all (500 optional properties of an object).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from engine.errors import InvalidRequestError

MAX_CHARS = 65_536
MAX_PROPERTIES = 400
MAX_LEVELS = 64
MAX_ITEMS = 10_000
# Each further one multiplies the choices of the others.
MAX_COMBINED = 4
_ITEM_COUNTS = ("minItems", "maxItems")
_PROPERTIES = ("properties", "patternProperties")


def check_bounds(schemas: Iterable[Any], what: str, param: str) -> None:
    """Raises ``InvalidRequestError`` about ``param`` if the schemas, called ``what``, hold more.

    Looks no further than the bounds: a document of any size costs no more than one of that size.
    """
    left = {name: limit for name, limit, _ in _BOUNDS}
    level, num_levels = list(schemas), 0
    while level:
        below: list[Any] = []
        for value in level:
            for name, number in _spent(value):
                left[name] -= number
            below += _inside(value)
            _check(left, what, param)
        level, num_levels = below, num_levels + 1
        if num_levels > MAX_LEVELS:
            raise InvalidRequestError(
                f"{what} may be nested at most {MAX_LEVELS} levels deep", param=param
            )


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _spent(value: Any) -> Iterator[tuple[str, int]]:
    """What this value takes of the bounds, but for what is inside it."""
    yield "characters", len(value) if isinstance(value, str) else 1
    if not isinstance(value, dict):
        return
    yield "characters", sum(map(len, value))
    for key, inner in value.items():
        if key in _PROPERTIES and isinstance(inner, dict):
            yield "properties", len(inner)
        elif key in _ITEM_COUNTS and isinstance(inner, int):
            yield "items", max(0, inner)
        elif key == "allOf" and isinstance(inner, list):
            yield "schemas", max(0, len(inner) - 1)


def _check(left: dict[str, int], what: str, param: str) -> None:
    for name, limit, where in _BOUNDS:
        if left[name] < 0:
            raise InvalidRequestError(f"{what} may hold at most {limit} {name}{where}", param=param)


_BOUNDS = (
    ("characters", MAX_CHARS, ""),
    ("properties", MAX_PROPERTIES, ""),
    ("items", MAX_ITEMS, " in all minItems and maxItems"),
    ("schemas", MAX_COMBINED - 1, " beyond the first in all allOf"),
)
