"""What a schema may hold: that much is taken, and one more is refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from engine.errors import InvalidRequestError
from worker.models.thinker.schema_bounds import (
    MAX_CHARS,
    MAX_COMBINED,
    MAX_ITEMS,
    MAX_LEVELS,
    MAX_PROPERTIES,
    check_bounds,
)


def deep(levels: int) -> Any:
    value: Any = True
    for _ in range(levels - 1):
        value = {"items": value}
    return value


def properties(number: int) -> dict[str, Any]:
    return {"properties": {f"p{index}": True for index in range(number)}}


def arrays(*counts: int) -> list[Any]:
    return [{"maxItems": count} for count in counts]


@pytest.mark.parametrize(
    ("fits", "words"),
    [
        ([properties(MAX_PROPERTIES - 1), {"not": properties(1)}], f"{MAX_PROPERTIES} properties"),
        ([deep(MAX_LEVELS)], f"{MAX_LEVELS} levels deep"),
        (arrays(MAX_ITEMS - 1, 1), f"{MAX_ITEMS} items"),
        ([{"allOf": [True] * MAX_COMBINED}, {"allOf": [True]}], "allOf"),
        (["a" * MAX_CHARS], f"{MAX_CHARS} characters"),
        ([{"a" * (MAX_CHARS - 2): True}], f"{MAX_CHARS} characters"),
    ],
)
def test_a_bound_is_kept_and_named(fits: list[Any], words: str) -> None:
    check_bounds(fits, "the schema", "field")
    more = {
        "properties": properties(1),
        "levels": deep(MAX_LEVELS + 1),
        "items": {"minItems": 1},
        "allOf": {"allOf": [True, True]},
        "characters": "a",
    }
    (one_more,) = [value for name, value in more.items() if name in words]
    with pytest.raises(InvalidRequestError, match=words) as caught:
        check_bounds([*fits, one_more], "the schema", "field")
    assert caught.value.message.startswith("the schema may ")
    assert caught.value.param == "field"


def test_a_huge_schema_is_looked_at_no_further_than_the_bounds() -> None:
    """Whatever lies below the level that is too much is never reached."""
    looked_at = 0

    class Watched(dict[str, Any]):
        def values(self) -> Any:
            nonlocal looked_at
            looked_at += 1
            return super().values()

    inner = [Watched({"x": 1}) for _ in range(100_000)]
    with pytest.raises(InvalidRequestError, match="characters"):
        check_bounds([inner], "the schema", "field")
    assert looked_at <= MAX_CHARS
