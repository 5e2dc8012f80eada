"""What is passed on as it came."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.errors import InvalidRequestError
from server.sendable import check_sendable


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        0.5,
        -(2**63),
        2**64 - 1,
        "\N{SNOWMAN} and \N{GRINNING FACE}",
        {"a": [1, {"b": ["", {}, []]}]},
    ],
)
def test_what_json_usually_holds_passes(value: Any) -> None:
    check_sendable(value, "x")


@pytest.mark.parametrize(
    ("text", "param", "reason"),
    [
        ('{"a": [0, {"b": "x\\ud800"}]}', "x.a[1].b", "lone surrogate at character 1"),
        ('{"a": {"\\udfff": 1}}', "x.a", "a key of x.a must be well-formed Unicode"),
        ('{"seed": 18446744073709551616}', "x.seed", "an integer of at most 64 bits"),
        ('{"seed": -9223372036854775809}', "x.seed", "an integer of at most 64 bits"),
        ('{"top_p": 1e999}', "x.top_p", "a finite number, got inf"),
        ('{"top_p": [-1e999]}', "x.top_p[0]", "a finite number, got -inf"),
    ],
)
def test_what_cannot_be_sent_on_is_named(text: str, param: str, reason: str) -> None:
    with pytest.raises(InvalidRequestError, match=reason.replace("[", r"\[")) as caught:
        check_sendable(json.loads(text), "x")
    assert caught.value.param == param
    caught.value.message.encode("utf-8")


def test_the_first_of_several_faults_is_named() -> None:
    with pytest.raises(InvalidRequestError) as caught:
        check_sendable({"a": [2**70, "\ud800"], "b": float("inf")}, "x")
    assert caught.value.param == "x.a[0]"
