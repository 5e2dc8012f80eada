"""The ElevenLabs session: what each message leads to, and what the client is told."""

from __future__ import annotations

import base64

import pytest

from engine.errors import OverloadedError, StageFailedError
from server.sessions.effects import (
    Abort,
    AppendText,
    ChangeVoice,
    Close,
    EndText,
    FlushText,
    StartUtterance,
)
from server.sessions.elevenlabs_session import _HANDLERS, Kind
from server.sessions.speech_session import State
from server.sessions.spoken import WordTime
from tests.server.sessions.elevenlabs_driving import chars, events, multi, say, single, spoken

WORDS = [WordTime(50, 200, 0, 5), WordTime(250, 400, 6, 12)]
FINAL = {"audio": None, "isFinal": True, "normalizedAlignment": None, "alignment": None}


# --- stream-input --------------------------------------------------------------------------------


def test_text_is_spoken_until_an_empty_one_ends_it() -> None:
    session = single()

    assert say(session, text=" ", voice_settings={"stability": 0.5}) == []
    assert say(session, text="Hello ") == [StartUtterance(0), AppendText(0, "Hello ")]
    assert say(session, text="there. ") == [AppendText(0, "there. ")]
    assert say(session, text="") == [EndText(0)]
    (audio,) = events(session.take_audio(0, spoken(500, WORDS, (0, 12), ends=True), 0.0))
    assert base64.b64decode(audio["audio"]) == b"ab"
    assert session.take_end(0)[-1] == Close(1000, "")
    assert session.state is State.CLOSED


def test_an_empty_text_alone_ends_the_connection_at_once() -> None:
    effects = say(single(), text="")

    assert events(effects) == [FINAL]
    assert effects[-1] == Close(1000, "")


def test_what_follows_the_end_is_ignored() -> None:
    session = single()
    say(session, text="Hello. ")
    say(session, text="")

    assert say(session, text="More. ") == []
    assert session.receive_text("not json", 0.0) == []


def test_a_space_keeps_the_connection_alive_and_stays_in_the_text() -> None:
    session = single()
    assert say(session, text=" ") == []
    say(session, text="Hello")

    assert say(session, text=" ") == [AppendText(0, " ")]


def test_a_failure_ends_the_connection_with_its_reason() -> None:
    session = single()
    say(session, text="Hello. ")
    effects = session.take_failure(0, StageFailedError("broke"))

    assert effects[0].__class__.__name__ == "SendEvent"
    (error,) = events(effects)
    assert (error["message"], error["error"], error["code"]) == ("broke", "stage_failed", 1011)
    assert effects[1:] == [Abort(0), Close(1011, "broke")]


def test_no_ticket_is_a_close_that_asks_to_come_back() -> None:
    session = single()
    say(session, text="Hello. ")
    effects = session.take_failure(0, OverloadedError("full", retry_after_s=2.0))

    assert events(effects)[0]["retry_after_s"] == 2.0
    assert effects[-1] == Close(1013, "full")


# --- when speech begins --------------------------------------------------------------------------


def test_a_flush_has_everything_spoken() -> None:
    session = multi()
    say(session, text="Hello", context_id="a")

    assert say(session, flush=True, context_id="a") == [FlushText(0)]
    assert say(session, text=" you", flush=True, context_id="a") == [
        AppendText(0, " you"),
        FlushText(0),
    ]


def test_in_auto_mode_each_text_is_spoken_at_once() -> None:
    session = multi(auto_mode=True)

    assert say(session, text="Hello.", context_id="a") == [
        StartUtterance(0),
        AppendText(0, "Hello."),
        FlushText(0),
    ]


def test_a_clause_is_begun_once_the_schedule_has_its_characters() -> None:
    session = single()
    config = {"chunk_length_schedule": [50, 80]}
    say(session, text=" ", generation_config=config)
    say(session, text="When the rain had stopped at last,")
    assert say(session, text=" they all") == [AppendText(0, " they all")]
    effects = say(session, text=" went out again together, and")
    assert effects == [
        AppendText(0, " went out again together,"),
        FlushText(0),
        AppendText(0, " and"),
    ]
    session.take_audio(0, spoken(100, span=(0, 60)), now=0.0)
    assert FlushText(0) not in say(session, now=9.0, text=" nobody was there, not even he who")
    assert FlushText(0) in say(
        session, now=9.0, text=" had been sitting by the door since spring, as"
    )


def test_a_try_begins_a_clause_before_the_schedule_says_so() -> None:
    session = single()
    say(session, text="When the rain had")
    say(session, text=" stopped,", try_trigger_generation=True)

    assert FlushText(0) in say(session, text=" they", try_trigger_generation=True)


def test_no_clause_is_cut_off_while_the_listener_has_enough_to_hear() -> None:
    session = single()
    say(session, text="Hello there. ")
    session.take_audio(0, spoken(20_000, span=(0, 12), ends=True), now=0.0)
    say(session, now=1.0, text="When the rain had stopped,", try_trigger_generation=True)

    assert FlushText(0) not in say(session, now=1.0, text=" they", try_trigger_generation=True)


def test_a_speed_acts_on_its_context_from_then_on() -> None:
    session = multi()
    say(session, text=" ", context_id="a", voice_settings={"speed": 1.2})
    say(session, text="Hello.", context_id="a")
    assert session.plan_of(0).prompt["speed"] == 1.2
    say(session, text="Other.", context_id="b")
    assert session.plan_of(1).prompt["speed"] == 1.0

    effects = say(session, text=" You.", context_id="a", voice_settings={"speed": 0.8})
    assert effects[0] == ChangeVoice(0, {"speed": 0.8})
    assert say(session, text="!", context_id="a", voice_settings={"speed": 0.8}) == [
        AppendText(0, "!")
    ]


# --- alignment -----------------------------------------------------------------------------------


def test_characters_are_timed_from_where_those_before_them_ended() -> None:
    """Clients add up the spans: each must begin where the one before it ended."""
    session = single()
    say(session, text="Hello there. You. ")
    first, second = (
        events(session.take_audio(0, spoken(300, WORDS, (0, 12)), 0.0))[0],
        events(session.take_audio(0, spoken(200, span=(0, 12), ends=True), 0.0))[0],
    )
    you = [WordTime(600, 800, 13, 17)]
    third = events(session.take_audio(0, spoken(400, you, (13, 17), ends=True), 0.0))[0]

    assert [chars(event) for event in (first, second, third)] == ["Hello there.", " ", "You. "]
    assert first["normalizedAlignment"] == first["alignment"]
    assert first["alignment"]["charStartTimesMs"][0] == 50
    clock_ms = 0
    for event, end_ms in ((first, 400), (second, 500), (third, 900)):
        times = event["alignment"]
        clock_ms += times["charStartTimesMs"][-1] + times["charDurationsMs"][-1]
        assert clock_ms == end_ms


def test_in_step_with_the_audio_they_are_timed_from_the_contexts_beginning() -> None:
    session = single(sync_alignment=True)
    say(session, text="Hello there. ")
    first = events(session.take_audio(0, spoken(240, WORDS, (0, 12)), 0.0))[0]
    second = events(session.take_audio(0, spoken(260, span=(0, 12), ends=True), 0.0))[0]

    assert [chars(event) for event in (first, second)] == ["Hello", " there. "]
    assert second["alignment"]["charStartTimesMs"][0] == 200
    assert second["alignment"]["charStartTimesMs"][1] == 250


def test_characters_wait_for_audio_that_the_coder_holds_back() -> None:
    session = single()
    say(session, text="Hello there. ")

    assert session.take_audio(0, spoken(300, WORDS, (0, 12), data=b""), 0.0) == []
    assert chars(events(session.take_audio(0, spoken(10, span=(0, 12)), 0.0))[0]) == "Hello there."


def test_text_that_was_not_told_is_told_before_the_end() -> None:
    session = single()
    say(session, text="Hello there. ...")
    say(session, text="")
    session.take_audio(0, spoken(500, WORDS, (0, 12), ends=True), 0.0)
    rest, final = events(session.take_end(0))

    assert (chars(rest), rest["audio"], final) == ("...", "", FINAL)


def test_a_long_piece_goes_in_several_messages_with_one_alignment() -> None:
    session = single()
    say(session, text="Hello there. ")
    data = bytes(500_000)
    sent = events(session.take_audio(0, spoken(500, WORDS, (0, 12), data=data), 0.0))

    assert b"".join(base64.b64decode(event["audio"]) for event in sent) == data
    assert [bool(event["alignment"]) for event in sent] == [True, False, False]


# --- multi-stream-input --------------------------------------------------------------------------


def test_contexts_are_spoken_side_by_side_and_named() -> None:
    session = multi()
    say(session, text="Hello.", context_id="a", flush=True)
    assert say(session, text="You.", contextId="b", flush=True)[0] == StartUtterance(1)

    (audio,) = events(session.take_audio(1, spoken(10), 0.0))
    assert audio["contextId"] == "b"
    (audio,) = events(session.take_audio(0, spoken(10), 0.0))
    assert audio["contextId"] == "a"


def test_a_flushed_context_that_is_closed_is_spoken_to_its_end() -> None:
    session = multi()
    say(session, text="Hello.", context_id="a", flush=True)

    assert say(session, close_context=True, context_id="a") == [EndText(0)]
    assert events(session.take_audio(0, spoken(10), 0.0))
    assert events(session.take_end(0))[-1] == FINAL | {"contextId": "a"}
    assert session.state is State.TEXT


@pytest.mark.parametrize("auto_mode", [True, False])
def test_a_context_that_is_closed_without_a_flush_is_silent_at_once(auto_mode: bool) -> None:
    session = multi(auto_mode=auto_mode)
    say(session, text="Hello. And then", context_id="a")
    effects = say(session, close_context=True, context_id="a")

    assert effects[0] == Abort(0)
    assert events(effects) == [FINAL | {"contextId": "a"}]
    assert session.take_audio(0, spoken(10), 0.0) == []
    assert session.take_end(0) == []


def test_a_context_that_is_closed_again_is_silent_at_once() -> None:
    """So Pipecat interrupts a turn whose text was complete."""
    session = multi()
    say(session, text="Hello.", context_id="a", flush=True)
    say(session, close_context=True, context_id="a")
    effects = say(session, close_context=True, context_id="a")

    assert effects[0] == Abort(0)
    assert events(effects) == [FINAL | {"contextId": "a"}]
    assert session.take_audio(0, spoken(10), 0.0) == []


def test_a_name_may_be_used_again_while_its_last_context_is_still_spoken() -> None:
    session = multi()
    say(session, text="Hello.", context_id="a", flush=True)
    say(session, close_context=True, context_id="a")

    assert say(session, text="New.", context_id="a")[0] == StartUtterance(1)
    session.take_end(0)
    assert say(session, text=" More.", context_id="a") == [AppendText(1, " More.")]


def test_keep_alives_flushes_and_closes_open_no_context() -> None:
    session = multi()

    assert say(session, text="") == []
    assert say(session, text="", context_id="a") == []
    assert say(session, flush=True, context_id="a") == []
    assert events(say(session, close_context=True, context_id="a")) == [FINAL | {"contextId": "a"}]
    for name in "bcdef":
        assert say(session, text="Hello.", context_id=name)[0].__class__ is StartUtterance


def test_a_sixth_context_is_refused_and_harms_none() -> None:
    session = multi()
    for name in "abcde":
        say(session, text="Hello.", context_id=name)
    error, final = events(say(session, text="Hello.", context_id="f"))

    assert (error["contextId"], error["error"]) == ("f", "overloaded")
    assert final == FINAL | {"contextId": "f"}
    assert say(session, text=" You.", context_id="e") == [AppendText(4, " You.")]
    say(session, close_context=True, context_id="a")
    assert say(session, text="Hello.", context_id="f")[0] == StartUtterance(5)


def test_contexts_that_are_not_finished_are_bounded_too() -> None:
    session = multi()
    refused = []
    for number in range(20):
        effects = say(session, text="Hello.", context_id=str(number), flush=True)
        refused += [event for event in events(effects) if "error" in event]
        say(session, close_context=True, context_id=str(number))

    assert len(refused) == 10


def test_one_contexts_failure_harms_no_other() -> None:
    session = multi()
    say(session, text="Hello.", context_id="a")
    say(session, text="Hello.", context_id="b")
    effects = session.take_failure(0, StageFailedError("broke"))

    assert effects[0] == Abort(0)
    error, final = events(effects)
    assert (error["contextId"], error["code"], final["isFinal"]) == ("a", 1011, True)
    assert say(session, text=" You.", context_id="b") == [AppendText(1, " You.")]


def test_too_long_a_text_ends_its_context() -> None:
    session = multi(max_context_chars=10)
    say(session, text="Hello", context_id="a")
    effects = say(session, text=" there you", context_id="a", flush=True)

    assert effects[0] == Abort(0)
    assert events(effects)[0]["param"] == "text"
    assert events(effects)[0]["error"] == "string_above_max_length"
    assert FlushText(0) not in effects


def test_closing_the_socket_waits_for_what_was_flushed() -> None:
    session = multi()
    say(session, text="Hello.", context_id="a", flush=True)
    say(session, text="Hello", context_id="b")
    effects = say(session, close_socket=True)

    assert EndText(0) in effects
    assert Abort(1) in effects
    assert session.state is State.CLOSING
    assert session.take_end(0)[-1] == Close(1000, "")


def test_closing_the_socket_with_nothing_to_say_closes_it() -> None:
    assert say(multi(), close_socket=True) == [Close(1000, "")]


def test_every_state_knows_every_kind_or_none() -> None:
    for state, handlers in _HANDLERS.items():
        assert set(handlers) in (set(Kind), set()), state
        for handler in handlers.values():
            assert callable(getattr(single(), handler))
