"""The speech session: what each message leads to, in each state."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.errors import OverloadedError, StageFailedError
from server.sessions.effects import (
    Abort,
    AppendText,
    ChangeVoice,
    Close,
    EndText,
    FlushText,
    SendEvent,
    StartUtterance,
)
from server.sessions.speech_session import _HANDLERS, State
from server.sessions.spoken import WordTime
from tests.server.sessions.driving import (
    configured,
    events,
    new_session,
    piece,
    say,
    the_error,
    types,
)


def test_the_first_text_starts_an_utterance_and_done_ends_it() -> None:
    session = configured()

    assert say(session, "input.text", text="Hel") == [StartUtterance(0), AppendText(0, "Hel")]
    assert say(session, "input.text", text="lo.") == [AppendText(0, "lo.")]
    assert say(session, "input.done") == [EndText(0)]
    assert say(session, "input.text", text="Next") == [StartUtterance(1), AppendText(1, "Next")]


def test_a_unit_is_announced_sent_and_ended() -> None:
    session = configured(split_granularity="sentence")
    say(session, "input.text", text="Hello. You.")
    say(session, "input.done")
    effects = [
        *session.take_audio(0, piece(b"abcd", opens=True, span=(0, 6)), 0.0),
        *session.take_audio(0, piece(b"ef", 50, span=(0, 6)), 0.0),
        *session.take_audio(0, piece(b"", 0, span=(0, 6), ends=True), 0.0),
        *session.take_audio(0, piece(b"gh", 10, opens=True, ends=True, span=(7, 11)), 0.0),
        *session.take_end(0),
    ]

    assert types(effects) == [
        *("audio.start", "binary", "binary", "audio.done"),
        *("audio.start", "binary", "audio.done", "session.done"),
    ]
    first, done, second, _, ended = events(effects)
    assert (first["sentence_index"], first["sentence_text"]) == (0, "Hello.")
    assert (done["total_bytes"], done["duration_ms"], done["error"]) == (6, 150, False)
    assert (second["sentence_text"], second["start_ms"]) == ("You.", 150)
    assert ended == {"type": "session.done", "utterance_index": 0, "total_sentences": 2}


def test_without_splitting_a_unit_is_the_whole_utterance() -> None:
    session = configured()
    say(session, "input.text", text="Hello. ")
    (start,) = events(session.take_audio(0, piece(opens=True, span=(0, 0)), 0.0))
    say(session, "input.text", text="You.")
    say(session, "input.done")
    (done,) = events(session.take_audio(0, piece(b"", 0, span=(0, 0), ends=True), 0.0))

    assert start["sentence_text"] == "Hello. "
    assert done["sentence_text"] == "Hello. You."


def test_done_without_text_is_an_utterance_of_no_sentences() -> None:
    session = configured()

    assert events(say(session, "input.done")) == [
        {"type": "session.done", "utterance_index": 0, "total_sentences": 0}
    ]
    say(session, "input.text", text="")
    assert events(say(session, "input.done"))[0]["utterance_index"] == 1


def test_done_without_text_waits_for_the_utterances_before() -> None:
    session = configured()
    say(session, "input.text", text="Hello.")
    say(session, "input.done")

    assert say(session, "input.done") == [StartUtterance(1), EndText(1)]


WORDS = [WordTime(50, 200, 0, 5), WordTime(220, 400, 6, 12)]


def test_cancel_says_what_was_sent_and_heard_to_the_word() -> None:
    session = configured(split_granularity="sentence")
    say(session, "input.text", text="Hello there. And")
    session.take_audio(0, piece(num_samples=300, words=WORDS, span=(0, 12), opens=True), 0.0)
    effects = say(session, "input.cancel", played_ms=210)

    assert effects[0] == Abort(0)
    assert types(effects) == ["audio.done", "input.cancelled", "session.done"]
    done, answer, ended = events(effects)
    assert done["cancelled"] is True
    assert ended["cancelled"] is True
    assert answer == {
        "type": "input.cancelled",
        "utterance_index": 0,
        "sent_ms": 300,
        "sent_chars": 5,
        "sent_text": "Hello",
        "heard_ms": 210,
        "heard_chars": 5,
        "heard_text": "Hello",
    }
    assert session.take_audio(0, piece(), 0.0) == []
    assert session.take_end(0) == []
    assert say(session, "input.text", text="New")[0] == StartUtterance(1)


def test_what_was_heard_can_be_asked_after_all_was_sent() -> None:
    session = configured(split_granularity="sentence")
    say(session, "input.text", text="Hello there.")
    say(session, "input.done")
    session.take_audio(0, piece(num_samples=500, words=WORDS, opens=True, ends=True), 0.0)
    session.take_end(0)

    for _ in range(2):
        effects = say(session, "input.cancel", played_ms=410.5, utterance_index=0)
        (answer,) = events(effects)
        assert (answer["heard_chars"], answer["sent_ms"]) == (12, 500)
    assert the_error(say(session, "input.cancel", utterance_index=3))["param"] == "utterance_index"


def test_cancel_ends_every_utterance_that_waits() -> None:
    session = configured()
    for text in ("One.", "Two."):
        say(session, "input.text", text=text)
        say(session, "input.done")
    say(session, "input.text", text="Three")
    effects = say(session, "input.cancel")

    assert effects[:3] == [Abort(0), Abort(1), Abort(2)]
    assert types(effects) == ["input.cancelled", *["session.done"] * 3]
    assert session.state is State.IDLE


def test_cancel_before_anything_was_said_is_answered() -> None:
    (answer,) = events(say(configured(), "input.cancel", played_ms=5))

    assert (answer["sent_ms"], answer["heard_ms"], answer["heard_text"]) == (0, 0, "")


def test_an_update_acts_on_the_text_that_comes_after() -> None:
    session = configured()
    assert types(say(session, "session.update", speed=2.0)) == ["session.updated"]
    say(session, "input.text", text="Hello")
    assert session.plan_of(0).prompt["speed"] == 2.0
    effects = say(session, "session.update", speed=1.5)

    assert effects[0] == ChangeVoice(0, {"speed": 1.5})
    assert events(effects) == [{"type": "session.updated", "voice": "anna", "speed": 1.5}]
    assert the_error(say(session, "session.update", voice="bob"))["param"] == "voice"
    assert the_error(say(session, "session.update", speed=9))["param"] == "speed"


def test_flush_has_the_rest_of_the_text_spoken() -> None:
    session = configured()
    assert say(session, "input.flush") == []
    say(session, "input.text", text="Hello")

    assert say(session, "input.flush") == [FlushText(0)]


def test_a_clause_is_flushed_only_when_the_listener_would_run_dry() -> None:
    session = configured(split_granularity="clause")
    say(session, "input.text", text="When the rain had")
    say(session, "input.text", text=" stopped,")
    assert say(session, "input.text", text=" they all") == [
        FlushText(0),
        AppendText(0, " they all"),
    ]
    session.take_audio(0, piece(num_samples=5000, opens=True, span=(0, 26)), now=0.0)

    kept = say(session, "input.text", now=1.0, text=" went outside again, and")
    assert kept == [AppendText(0, " went outside again, and")]
    cut = say(session, "input.text", now=4.5, text=" nobody ever came back, but")
    assert cut == [
        AppendText(0, " nobody ever came back,"),
        FlushText(0),
        AppendText(0, " but"),
    ]


def test_a_failure_ends_the_unit_and_swallows_the_rest_of_the_text() -> None:
    session = configured()
    say(session, "input.text", text="Hello")
    session.take_audio(0, piece(opens=True), 0.0)
    effects = session.take_failure(0, StageFailedError("broke"))

    assert effects[0] == Abort(0)
    error, done = events(effects)
    assert (error["code"], error["partial_audio"], error["action"]) == (
        "stage_failed",
        True,
        "discard",
    )
    assert (done["type"], done["error"]) == ("audio.done", True)
    assert say(session, "input.text", text="more") == []
    assert say(session, "input.flush") == []
    assert session.take_failure(0, StageFailedError("again")) == []
    (ended,) = events(say(session, "input.done"))
    assert (ended["type"], ended["error"]) == ("session.done", True)


def test_overload_says_when_to_come_back() -> None:
    session = configured()
    say(session, "input.text", text="Hello")
    say(session, "input.done")
    error, ended = events(session.take_failure(0, OverloadedError("full", retry_after_s=2.5)))

    assert (error["code"], error["retry_after_s"]) == ("overloaded", 2.5)
    assert ended["error"] is True


def test_too_many_utterances_at_once_are_refused() -> None:
    session = configured()
    for _ in range(4):
        say(session, "input.text", text="Hello")
        say(session, "input.done")

    assert the_error(say(session, "input.text", text="Hello"))["code"] == "overloaded"
    session.take_end(0)
    assert say(session, "input.text", text="Hello")[0] == StartUtterance(4)


def test_close_lets_the_utterances_that_are_complete_be_heard() -> None:
    session = configured()
    say(session, "input.text", text="Hello.")
    say(session, "input.done")
    say(session, "input.text", text="And")

    assert say(session, "session.close") == [Abort(1)]
    assert the_error(say(session, "input.text", text="x"))["code"] == "out_of_order"
    assert session.take_end(0)[-1] == Close(1000, "")
    assert session.state is State.CLOSED


def test_close_and_then_cancel_closes_at_once() -> None:
    session = configured()
    say(session, "input.text", text="Hello.")
    say(session, "input.done")
    say(session, "session.close")

    assert say(session, "input.cancel")[-1] == Close(1000, "")


def test_a_configuration_stays_while_an_utterance_is_spoken() -> None:
    session = configured(speed=2.0)
    say(session, "input.text", text="Hello.")
    assert the_error(say(session, "session.config", speed=3.0))["code"] == "out_of_order"
    say(session, "input.done")
    assert the_error(say(session, "session.config", speed=3.0))["code"] == "out_of_order"
    assert session.plan_of(0).prompt["speed"] == 2.0
    session.take_end(0)

    assert say(session, "session.config", speed=3.0) == []


@pytest.mark.parametrize("kind", ["input.text", "input.done", "session.update", "no.such"])
def test_a_session_that_does_not_begin_with_its_configuration_closes(kind: str) -> None:
    session = new_session()
    effects = say(session, kind, text="x")

    assert types(effects) == ["error"]
    assert effects[-1] == Close(1008, "no session.config")
    assert say(session, "session.config") == []


def test_a_configuration_that_is_wrong_can_be_sent_again() -> None:
    session = new_session()

    assert the_error(say(session, "session.config", voice="bob"))["param"] == "voice"
    assert say(session, "session.config", voice="anna") == []


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ({"type": "input.text"}, "text"),
        ({"type": "input.text", "text": 5}, "text"),
        ({"type": "input.text", "text": None}, "text"),
        ({"type": "input.text", "text": "a\x00b"}, "text"),
        ({"type": "input.text", "text": "\ud800"}, "text"),
        ({"type": "input.cancel", "played_ms": -1}, "played_ms"),
        ({"type": "input.cancel", "played_ms": "5"}, "played_ms"),
        ({"type": "input.cancel", "played_ms": 1e12}, "played_ms"),
        ({"type": "input.cancel", "utterance_index": 0.5}, "utterance_index"),
        ({"type": "session.update", "speed": 0}, "speed"),
        ({"type": "session.update", "voice": 5}, "voice"),
        ({"type": "session.config", "split_granularity": "word"}, "split_granularity"),
        ({"type": "session.config", "audio_transport": "xml"}, "audio_transport"),
        ({"type": "session.config", "response_format": "mpeg"}, "response_format"),
        ({"type": "session.config", "stream_audio": "yes"}, "stream_audio"),
        ({"type": "session.config", "ref_audio": "https://x.org/a.wav"}, "ref_audio"),
        ({"type": 5}, "type"),
        ({}, "type"),
    ],
)
def test_a_wrong_message_is_an_error_that_names_the_field(
    message: dict[str, Any], param: str
) -> None:
    session = configured()
    effects = session.receive_text(json.dumps(message), 0.0)

    assert [type(effect) for effect in effects] == [SendEvent]
    error = the_error(effects)
    assert error["param"] == param
    assert param in error["message"]
    assert say(session, "input.text", text="Hello")[0] == StartUtterance(0)


@pytest.mark.parametrize("text", ["", "{", "[]", "5", "null", '{"type": NaN}', "[" * 5000])
def test_what_is_no_json_object_is_an_error(text: str) -> None:
    assert "the message" in the_error(configured().receive_text(text, 0.0))["message"]
    assert new_session().receive_text(text, 0.0)[-1] == Close(1008, "no session.config")


def test_messages_and_texts_are_bounded() -> None:
    session = new_session(max_config_chars=200, max_message_chars=100, max_utterance_chars=20)
    say(session, "session.config")
    assert the_error(say(session, "input.text", text="x" * 100))["code"] == "payload_too_large"
    assert the_error(say(session, "input.text", text="x" * 21))["param"] == "text"
    say(session, "input.text", text="x" * 20)
    assert the_error(say(session, "input.text", text="x"))["code"] == "string_above_max_length"
    assert say(session, "input.done") == [EndText(0)]

    small = new_session(max_config_chars=20)
    assert say(small, "session.config", voice="anna")[-1] == Close(1008, "no session.config")


def test_binary_messages_are_refused() -> None:
    assert types(configured().receive_binary()) == ["error"]
    assert new_session().receive_binary()[-1] == Close(1003, "no session.config")


def test_a_quiet_client_is_told_why_it_is_closed() -> None:
    assert "session.config" in the_error(new_session().time_out())["message"]
    session = configured()
    say(session, "input.text", text="Hello")
    effects = session.time_out()

    assert "Idle timeout" in the_error(effects)["message"]
    assert effects[-2:] == [Abort(0), Close(1008, "timeout")]
    assert session.time_out() == []


def test_every_handler_in_the_table_exists() -> None:
    session = new_session()

    assert set(_HANDLERS) == set(State)
    for handlers in _HANDLERS.values():
        assert all(callable(getattr(session, name)) for name in handlers.values())


def test_warnings_are_told_with_the_unit_and_once_with_the_utterance() -> None:
    session = configured(split_granularity="sentence")
    say(session, "input.text", text="Hello. You.")
    say(session, "input.done")
    effects = [
        *session.take_audio(0, piece(opens=True, ends=True, warnings=("a", "b")), 0.0),
        *session.take_audio(0, piece(opens=True, ends=True, span=(7, 11)), 0.0),
        *session.take_audio(0, piece(opens=True, span=(12, 20), warnings=("b",)), 0.0),
        *session.take_audio(0, piece(ends=True, span=(12, 20), warnings=("c",)), 0.0),
        *session.take_end(0),
    ]

    ends = [event for event in events(effects) if event["type"].endswith(".done")]
    assert [event.get("warnings") for event in ends] == [
        ["a", "b"],
        None,
        ["b", "c"],
        ["a", "b", "c"],
    ]


def test_an_utterance_warns_of_so_much_and_no_more() -> None:
    session = configured()
    say(session, "input.text", text="Hello.")
    for number in range(100):
        session.take_audio(0, piece(warnings=(f"warning {number}",)), 0.0)

    ended = events(session.take_end(0))[-1]

    assert ended["warnings"] == [f"warning {number}" for number in range(32)]


@pytest.mark.parametrize(("text", "warned"), [("中", True), ("", False)])
def test_an_utterance_without_any_speech_says_why(text: str, warned: bool) -> None:
    session = configured()
    say(session, "input.text", text=text)
    say(session, "input.text", text="First.")
    say(session, "input.done")
    session.take_end(0)
    say(session, "input.text", text=text)
    effects = say(session, "input.done") + session.take_end(1)

    ended = events(effects)[-1]
    assert ended["type"] == "session.done"
    assert ("warnings" in ended) == warned
