"""``truncation`` of a session: what it may be, what is shown, and what an answer is made with."""

from __future__ import annotations

from typing import Any

import pytest

from server.sessions.realtime.effects import StartResponse
from server.sessions.realtime.response import Usage
from server.sessions.realtime.truncation import Truncation
from server.talk.session_orders import prompt_of, usage_of
from tests.server.sessions.realtime.driving import Client, the_error, types

RATIO = {"type": "retention_ratio", "retention_ratio": 0.8}
LIMITED = RATIO | {"token_limits": {"post_instructions": 5000}}


def prompt(client: Client) -> dict[str, Any]:
    return prompt_of(client.last(StartResponse).order)


def test_a_session_truncates_unless_it_is_told_otherwise() -> None:
    client = Client()
    assert client.events[0]["session"]["truncation"] == "auto"
    client.turn("Hi.")
    assert prompt(client)["truncation"] == {"retention_ratio": 1.0, "post_instructions": None}


@pytest.mark.parametrize(
    ("truncation", "shown", "asked"),
    [
        ("auto", "auto", Truncation()),
        (None, "auto", Truncation()),
        (RATIO, RATIO, Truncation(0.8)),
        (RATIO | {"token_limits": None}, RATIO | {"token_limits": None}, Truncation(0.8)),
        (RATIO | {"token_limits": {}}, RATIO | {"token_limits": {}}, Truncation(0.8)),
        (LIMITED | {"more": 1}, LIMITED, Truncation(0.8, 5000)),
        (RATIO | {"retention_ratio": 0}, RATIO | {"retention_ratio": 0}, Truncation(0)),
    ],
)
def test_an_update_is_shown_and_acts(truncation: Any, shown: Any, asked: Truncation) -> None:
    client = Client()
    client.update(truncation="disabled")
    (event,) = client.update(truncation=truncation)
    assert event["session"]["truncation"] == shown
    client.turn("Hi.")
    assert client.last(StartResponse).order.truncation == asked


def test_where_it_is_disabled_prompts_go_whole() -> None:
    client = Client()
    client.update(truncation="disabled")
    client.turn("Hi.")
    assert "truncation" not in prompt(client)


@pytest.mark.parametrize(
    ("truncation", "param"),
    [
        ("none", ""),
        (1, ""),
        ([], ""),
        ({"type": "ratio", "retention_ratio": 0.5}, ".type"),
        ({"retention_ratio": 0.5}, ".type"),
        ({"type": "retention_ratio"}, ".retention_ratio"),
        (RATIO | {"retention_ratio": 1.5}, ".retention_ratio"),
        (RATIO | {"retention_ratio": "0.5"}, ".retention_ratio"),
        (RATIO | {"token_limits": 5}, ".token_limits"),
        (RATIO | {"token_limits": {"post_instructions": -1}}, ".token_limits.post_instructions"),
        (RATIO | {"token_limits": {"post_instructions": 1.5}}, ".token_limits.post_instructions"),
    ],
)
def test_what_it_cannot_be_is_refused_by_name(truncation: Any, param: str) -> None:
    client = Client()
    error = the_error(client.update(truncation=truncation))
    assert error["param"] == f"session.truncation{param}"
    assert client.session.config.to_json()["truncation"] == "auto"


def test_a_session_that_only_listens_has_none() -> None:
    client = Client(kind="transcription")
    assert "truncation" not in client.events[0]["session"]
    assert types(client.update(truncation="disabled")) == ["session.updated"]
    assert "truncation" not in client.events[-1]["session"]


def test_the_sound_of_turns_that_the_model_was_not_told_is_not_counted() -> None:
    client = Client()
    client.detect(create_response=False)
    lengths = []
    for words in ("First.", "", "Third.", "Fourth."):
        begun_ms = client.heard_ms
        client.turn(words)
        lengths.append(client.heard_ms - begun_ms)
    for num_left_out, counted in ((0, lengths), (1, lengths[1:]), (2, lengths[3:])):
        client.say("response.create")
        client.text("Yes.")
        spent = usage_of({"prompt_tokens": 9, "left_out_messages": num_left_out})
        assert isinstance(spent, Usage)
        response = client.finish(usage=spent)[-2]["response"]
        details = response["usage"]["input_token_details"]
        assert details["text_tokens"] == 9
        assert details["audio_tokens"] == pytest.approx(sum(counted) / 100, abs=1)
