"""Reading a body."""

from __future__ import annotations

from typing import ClassVar

import pytest

from engine.errors import InvalidRequestError
from server.json_body import (
    RequestModel,
    check_content_type,
    decode_object,
    quoted,
    validate,
)


class Thing(RequestModel):
    must_be: ClassVar[dict[str, str]] = {"size": "an integer"}

    size: int


@pytest.mark.parametrize(
    "value",
    [
        None,
        "",
        "application/json",
        "Application/JSON; charset=utf-8",
        "application/vnd.api+json",
        "text/json",
    ],
)
def test_json_and_silence_are_accepted(value: str | None) -> None:
    check_content_type(value)


def test_a_byte_order_mark_is_skipped() -> None:
    assert decode_object(b'\xef\xbb\xbf{"a": 1}') == {"a": 1}


def test_fields_that_are_not_known_are_ignored() -> None:
    assert validate({"size": 1, "colour": "red"}, Thing) == Thing(size=1)


def test_the_offending_value_is_quoted_short() -> None:
    with pytest.raises(InvalidRequestError) as caught:
        validate({"size": "x" * 1_000_000}, Thing)

    assert caught.value.param == "size"
    assert caught.value.message.startswith("size must be an integer, got 'xxx")
    assert len(caught.value.message) < 200


@pytest.mark.parametrize(
    ("value", "text"), [("☃", "'\\u2603'"), ({"a": 1}, "dict"), ([1], "list"), (None, "None")]
)
def test_quoting_is_ascii_and_does_not_spread_structures(value: object, text: str) -> None:
    assert quoted(value) == text
