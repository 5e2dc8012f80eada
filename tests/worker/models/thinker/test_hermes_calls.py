"""Tool calls inside a model's text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from worker.models.thinker.hermes_calls import HermesCalls

CALL = '<tool_call>\n{"name": "add", "arguments": {"a": 2}}\n</tool_call>'


def read(pieces: list[str]) -> tuple[str, list[dict[str, Any]]]:
    parser = HermesCalls()
    text, calls = "", []
    for piece in pieces:
        more, found = parser.feed(piece)
        text += more
        calls += found
    return text + parser.finish(), calls


def test_a_call_is_taken_out_of_the_text() -> None:
    text, calls = read([f"Let me see. {CALL}"])
    assert text == "Let me see. "
    assert calls == [{"index": 0, "id": "", "name": "add", "arguments": '{"a": 2}'}]


def test_calls_are_numbered() -> None:
    _, calls = read([CALL, "\n", CALL])
    assert [call["index"] for call in calls] == [0, 1]


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>no json</tool_call>",
        "<tool_call>[1]</tool_call>",
        '<tool_call>{"arguments": {}}</tool_call>',
        '<tool_call>{"name": "never closed"',
        "a <tool_cal",
        "a < b",
        "",
    ],
)
def test_what_is_no_call_stays_in_the_text(text: str) -> None:
    assert read([text]) == (text, [])


def test_text_is_passed_on_as_it_comes() -> None:
    parser = HermesCalls()
    assert parser.feed("Hello <") == ("Hello ", [])
    assert parser.feed("b>") == ("<b>", [])


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(st.sampled_from([CALL, "<tool_call>", "</tool_call>", "<", "a ", "{}"])), st.data())
def test_how_a_text_is_cut_changes_nothing(parts: list[str], data: st.DataObject) -> None:
    whole = "".join(parts)
    cut = data.draw(st.integers(0, len(whole)))
    assert read([whole[:cut], whole[cut:]]) == read([whole]) == read(list(whole))
    assert all(json.loads(call["arguments"]) for call in read([whole])[1])
