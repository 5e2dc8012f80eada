"""What an ElevenLabs session does about messages that are wrong, and clients without a key."""

from __future__ import annotations

import json
from typing import Any

import pytest

from server.sessions.effects import Abort, Close
from server.sessions.speech_session import State
from tests.server.sessions.elevenlabs_driving import events, multi, say, single

BAD: list[tuple[str, str, str]] = [
    ("not JSON", "{", "not valid JSON"),
    ("a list", "[]", "must be a JSON object"),
    ("nothing", "{}", "a message must have text"),
    ("text that is a number", '{"text": 5}', "text must be"),
    ("NUL", '{"text": "a\\u0000"}', "text must be"),
    ("a lone surrogate", '{"text": "\\ud800"}', "well-formed Unicode"),
    ("a speed", '{"text": "a", "voice_settings": {"speed": 9}}', "from 0.25 to 4.0"),
    ("settings", '{"text": "a", "voice_settings": 1}', "voice_settings must be"),
    (
        "a schedule",
        '{"text": "a", "generation_config": {"chunk_length_schedule": [1]}}',
        "from 50 to 500",
    ),
    (
        "no schedule",
        '{"text": "a", "generation_config": {"chunk_length_schedule": []}}',
        "generation_config must be",
    ),
    ("a flush", '{"text": "a", "flush": "perhaps"}', "flush must be true or false"),
    ("a dictionary", '{"text": "a", "pronunciation_dictionary_locators": [{}]}', "has none"),
    ("too much", json.dumps({"text": "x" * 200_000}), "message too large"),
    ("a long name", json.dumps({"text": "x", "context_id": "x" * 300}), "at most 256"),
]


@pytest.mark.parametrize("is_multi", [True, False])
@pytest.mark.parametrize(("text", "says"), [b[1:] for b in BAD], ids=[b[0] for b in BAD])
def test_a_bad_message_ends_the_connection_and_says_why(
    text: str, says: str, is_multi: bool
) -> None:
    session = multi() if is_multi else single()
    say(session, text="Hello. ")
    effects = session.receive_text(text, 0.0)

    (error,) = events(effects)
    assert says in error["message"]
    assert error["code"] == 1008
    assert effects[1] == Abort(0)
    assert isinstance(effects[2], Close)
    assert effects[2].code == 1008
    assert effects[2].reason
    assert len(effects[2].reason) <= 123


def test_a_binary_message_ends_it_too() -> None:
    effects = single().receive_binary()

    assert events(effects)[0]["code"] == 1003
    assert isinstance(effects[-1], Close)


def test_a_connection_without_its_key_is_closed() -> None:
    def key_of(message: dict[str, Any]) -> list[dict[str, Any]]:
        session = single(unlock=lambda key: key == "k")
        assert session.state is State.NEW
        found = events(say(session, **message))
        assert session.state is (State.CLOSED if found else State.TEXT)
        return found

    assert key_of({"text": " ", "xi_api_key": "k"}) == []
    assert key_of({"text": " ", "xi-api-key": "k"}) == []
    assert key_of({"text": " ", "authorization": "Bearer k"}) == []
    assert key_of({"text": " "})[0]["error"] == "missing_api_key"
    assert key_of({"text": " ", "xi_api_key": "x"})[0]["error"] == "invalid_api_key"


def test_quiet_is_a_timeout_with_a_word_for_it() -> None:
    session = single()
    say(session, text="Hello")
    effects = session.time_out()

    assert events(effects)[0]["error"] == "input_timeout_exceeded"
    assert effects[1] == Abort(0)
    assert session.time_out() == []
    assert multi().time_out() == [Close(1008, "no message came in time")]
