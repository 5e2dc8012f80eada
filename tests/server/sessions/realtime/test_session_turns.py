"""Whole turns of a realtime session, event by event."""

from __future__ import annotations

from typing import Any

import pytest
from openai.types.realtime import RealtimeServerEvent
from pydantic import TypeAdapter

from engine.errors import InvalidRequestError, StageFailedError
from server.sessions.realtime.effects import (
    CancelResponse,
    Recognise,
    StartResponse,
)
from server.sessions.realtime.response import Usage
from tests.server.sessions.realtime.driving import Client, the_error, types

_EVENTS: TypeAdapter[RealtimeServerEvent] = TypeAdapter(RealtimeServerEvent)

SPEECH = ["input_audio_buffer.speech_started"]
COMMIT = [
    "input_audio_buffer.speech_stopped",
    "input_audio_buffer.committed",
    "conversation.item.added",
    "conversation.item.done",
]
ITEM = [
    "response.output_item.added",
    "conversation.item.added",
    "response.content_part.added",
]
ITEM_END = [
    "response.output_audio.done",
    "response.output_audio_transcript.done",
    "response.content_part.done",
    "conversation.item.done",
    "response.output_item.done",
]
END = ["response.done", "rate_limits.updated"]


def check_all(client: Client) -> None:
    """Every event has an id of its own and is one of the SDK's types, fields and all."""
    ids = [event["event_id"] for event in client.events]
    assert len(set(ids)) == len(ids)
    for event in client.events:
        _EVENTS.validate_python(event, strict=False)


def speak(client: Client) -> None:
    client.text("Hello ")
    client.text("there.")
    client.audio(400, 5)
    client.audio(400, 12)


def test_a_spoken_turn_has_openais_order() -> None:
    client = Client()
    client.update(audio={"input": {"transcription": {"model": "whisper-1"}}})
    assert types(client.events) == ["session.created", "session.updated"]
    assert types(client.talk()) == SPEECH
    assert types(client.rest()) == COMMIT
    words = client.understand("Good morning.")
    assert types(words) == [
        "conversation.item.input_audio_transcription.delta",
        "conversation.item.input_audio_transcription.completed",
        "response.created",
    ]
    assert client.last(StartResponse).order.messages == [
        {"role": "user", "content": "Good morning."}
    ]
    assert types(client.text("Hello ")) == [*ITEM, "response.output_audio_transcript.delta"]
    assert types(client.audio(400, 5)) == ["response.output_audio.delta"]
    end = client.finish(usage=Usage(input_text_tokens=7, output_text_tokens=3))
    assert types(end) == [*ITEM_END, *END]
    assert end[-2]["response"]["status"] == "completed"
    assert end[-2]["response"]["usage"]["output_token_details"] == {
        "text_tokens": 3,
        "audio_tokens": 8,
    }
    check_all(client)


def test_all_events_of_a_turn_are_about_the_same_item() -> None:
    client = Client()
    client.turn("Hi.")
    ids = {
        event.get("item_id") or event["item"]["id"]
        for event in client.events
        if event["type"].startswith(("input_audio_buffer", "conversation.item"))
    }
    assert ids == {"item_1"}


def test_words_of_a_stream_that_is_over_still_find_their_turn() -> None:
    client = Client()
    client.talk()
    client.rest()
    client.say("input_audio_buffer.clear")
    assert types(client.understand("Hi.")) == ["response.created"]


def test_a_stream_that_breaks_loses_its_turns_and_no_other() -> None:
    client = Client()
    client.update(audio={"input": {"transcription": {"model": "whisper-1"}}})
    client.talk()
    client.rest()
    broken = client.session.take_listening_failure(
        client.epoch, StageFailedError("no model"), client.now
    )
    assert types(client.note(broken)) == [
        "error",
        "conversation.item.input_audio_transcription.failed",
    ]
    assert client.understand("late") == []
    client.append(100)
    assert client.epoch == 1
    client.now += 1.0
    events = client.turn("Hello?")
    assert client.epoch == 2
    assert types(events)[-1] == "response.created"
    check_all(client)


def test_noise_without_words_is_not_answered() -> None:
    client = Client()
    events = client.turn(" ")
    assert "response.created" not in types(events)
    assert client.count(StartResponse) == 0


def test_the_detector_may_leave_answering_to_the_client() -> None:
    client = Client()
    client.detect(create_response=False)
    client.turn("Hi.")
    assert client.count(StartResponse) == 0
    assert types(client.say("response.create")) == ["response.created"]
    assert client.count(StartResponse) == 1


def test_an_answer_waits_for_the_words_of_its_turn() -> None:
    client = Client()
    client.detect(off=True)
    client.append(500)
    client.say("input_audio_buffer.commit")
    assert types(client.say("response.create")) == ["response.created"]
    assert client.count(StartResponse) == 0
    client.read("How are you?")
    assert client.last(StartResponse).order.messages[-1]["content"] == "How are you?"


def test_a_turn_that_breaks_off_is_ended_and_failures_are_told_once() -> None:
    client = Client()
    client.talk()
    failure = StageFailedError("no model")
    broken = client.session.take_listening_failure(client.epoch, failure, client.now)
    assert types(client.note(broken)) == ["input_audio_buffer.speech_stopped", "error"]
    client.now += 1.0
    client.is_speaking = False
    client.talk()
    broken = client.session.take_listening_failure(client.epoch, failure, client.now)
    assert types(client.note(broken)) == ["input_audio_buffer.speech_stopped"]


def test_what_the_client_made_the_recogniser_refuse_is_the_clients_mistake() -> None:
    client = Client()
    client.talk()
    refused = InvalidRequestError("language must be en", param="language")
    broken = client.session.take_listening_failure(client.epoch, refused, client.now)
    error = client.note(broken)[-1]["error"]
    assert (error["type"], error["code"]) == ("invalid_request_error", "invalid_value")
    assert error["param"] == "language"
    client.update(audio={"input": {"transcription": {"language": "fr"}}})
    client.now += 1.0
    client.is_speaking = False
    client.talk()
    broken = client.session.take_listening_failure(client.epoch, refused, client.now)
    assert types(client.note(broken))[-1] == "error"


def test_turns_of_a_stream_that_was_closed_fail_with_it() -> None:
    client = Client()
    client.detect(create_response=False)
    client.talk()
    client.rest()
    client.say("input_audio_buffer.clear")
    client.append(100)
    client.say("response.create", response={"instructions": "Greet the user."})
    assert client.count(StartResponse) == 0
    client.note(client.session.take_listening_failure(1, StageFailedError("x"), client.now))
    assert client.count(StartResponse) == 1


def test_a_recording_that_cannot_be_understood_fails_alone() -> None:
    client = Client()
    client.update(audio={"input": {"transcription": {"model": "whisper-1"}}})
    client.append(500)
    client.say("input_audio_buffer.commit")
    asked = client.last(Recognise)
    events = client.note(
        client.session.take_words_failure(asked.item_id, StageFailedError("no"), client.now)
    )
    assert types(events) == ["conversation.item.input_audio_transcription.failed"]
    assert types(client.turn("Hello?"))[-1] == "response.created"
    check_all(client)


def test_barge_in_ends_the_answer_at_once() -> None:
    client = Client()
    client.turn("Hi.")
    speak(client)
    events = client.talk(96)
    assert types(events) == [*SPEECH, *ITEM_END, *END]
    done = events[-2]["response"]
    assert done["status"] == "cancelled"
    assert done["status_details"] == {"type": "cancelled", "reason": "turn_detected"}
    assert done["output"][0]["status"] == "incomplete"
    assert client.last(CancelResponse).response_id == done["id"]
    assert client.text("late") == []
    assert client.audio(100) == []
    assert client.finish() == []
    check_all(client)


def test_what_was_not_heard_leaves_the_conversation() -> None:
    client = Client()
    client.turn("Hi.")
    speak(client)
    client.talk(96)
    (item,) = [e["item"] for e in client.events if e["type"] == "response.output_item.done"]
    events = client.say(
        "conversation.item.truncate", item_id=item["id"], content_index=0, audio_end_ms=500
    )
    assert types(events) == ["conversation.item.truncated"]
    (shown,) = client.say("conversation.item.retrieve", item_id=item["id"])
    assert shown["item"]["content"] == [{"type": "output_audio", "transcript": "Hello"}]
    client.talk()
    client.rest()
    client.understand("Stop.")
    assert client.last(StartResponse).order.messages == [
        {"role": "user", "content": "Hi."},
        {"role": "assistant", "content": "Hello"},
        {"role": "user", "content": "Stop."},
    ]
    check_all(client)


def test_text_that_ran_ahead_of_the_sound_of_a_cancelled_answer_does_not_count() -> None:
    client = Client()
    client.turn("Hi.")
    client.text("Hello there. And more.")
    client.audio(800, 12)
    client.say("response.cancel")
    client.turn("Go on.")
    assert client.last(StartResponse).order.messages[1]["content"] == "Hello there."


def test_a_cancelled_answer_is_done_with_all_its_events() -> None:
    client = Client()
    client.turn("Hi.")
    speak(client)
    events = client.say("response.cancel")
    assert types(events) == [*ITEM_END, *END]
    assert events[-2]["response"]["status_details"]["reason"] == "client_cancelled"
    assert the_error(client.say("response.cancel"))["code"] == "response_cancel_not_active"
    check_all(client)


def test_a_function_call_is_told_and_its_result_goes_back() -> None:
    client = Client()
    tool = {"type": "function", "name": "add", "parameters": {"type": "object"}}
    client.update(tools=[tool])
    client.turn("Two and two?")
    order = client.last(StartResponse).order
    assert order.tools == [
        {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
    ]
    assert types(client.call(0, "add", "")) == [
        "response.output_item.added",
        "conversation.item.added",
    ]
    assert types(client.call(0, "add", '{"a":2}')) == ["response.function_call_arguments.delta"]
    events = client.finish()
    assert types(events) == [
        "response.function_call_arguments.done",
        "conversation.item.done",
        "response.output_item.done",
        *END,
    ]
    assert events[0]["name"] == "add"
    assert events[0]["arguments"] == '{"a":2}'
    output = {"type": "function_call_output", "call_id": "call_0", "output": "4"}
    client.say("conversation.item.create", item=output)
    client.say("response.create")
    call = {"id": "call_0", "type": "function"}
    call_message = {
        "role": "assistant",
        "content": None,
        "tool_calls": [call | {"function": {"name": "add", "arguments": '{"a":2}'}}],
    }
    assert client.last(StartResponse).order.messages == [
        {"role": "user", "content": "Two and two?"},
        call_message,
        {"role": "tool", "tool_call_id": "call_0", "content": "4"},
    ]
    check_all(client)


def test_a_call_that_was_cut_short_is_not_done() -> None:
    client = Client()
    client.turn("Two and two?")
    client.call(0, "add", '{"a"')
    events = client.say("response.cancel")
    assert "response.function_call_arguments.done" not in types(events)
    assert types(events)[-2:] == END


def test_a_call_without_a_result_or_cut_short_is_kept_from_the_model() -> None:
    client = Client()
    client.turn("Two and two?")
    client.call(0, "add", '{"a"')
    client.talk(96)
    client.rest()
    client.understand("Hello?")
    assert [m["role"] for m in client.last(StartResponse).order.messages] == ["user", "user"]
    call = client.call(0, "add", "{}")[0]["item"]
    client.finish()
    client.turn("Are you there?")
    roles = [message["role"] for message in client.last(StartResponse).order.messages]
    assert roles == ["user", "user", "user"]
    client.say("response.cancel")
    output = {"type": "function_call_output", "call_id": call["call_id"], "output": "4"}
    client.say("conversation.item.create", item=output)
    client.say("response.create")
    roles = [message["role"] for message in client.last(StartResponse).order.messages]
    assert roles == ["user", "user", "assistant", "tool", "user"]


def test_calls_of_one_answer_are_one_message_before_their_results() -> None:
    client = Client()
    client.turn("Two sums?")
    client.call(0, "add", "{}")
    client.call(1, "add", "{}")
    client.finish()
    for number in (1, 0):
        output = {"type": "function_call_output", "call_id": f"call_{number}", "output": "4"}
        client.say("conversation.item.create", item=output)
    client.say("response.create")
    messages = client.last(StartResponse).order.messages
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "tool"]
    assert [call["id"] for call in messages[1]["tool_calls"]] == ["call_0", "call_1"]


def test_a_model_that_gives_its_calls_no_ids_gets_them_here() -> None:
    client = Client()
    client.turn("Two sums?")
    for index in (0, 1):
        client.note(client.session.take_call(client.response_id, index, "", "add", "{}"))
    events = client.finish()
    ids = [e["call_id"] for e in events if e["type"].endswith("arguments.done")]
    assert len(set(ids)) == 2
    assert all(ids)


def test_a_question_that_a_cough_follows_is_answered() -> None:
    client = Client()
    client.talk()
    client.rest()
    question_ms = client.turn_start_ms
    client.talk(96)
    question = client.session.take_live_words(client.epoch, question_ms, "What time?", client.now)
    assert client.note(question) == []
    client.rest()
    assert types(client.understand(" "))[-1] == "response.created"


def test_an_answer_in_text_has_no_sound() -> None:
    client = Client()
    client.update(output_modalities=["text"])
    client.turn("Hi.")
    assert client.last(StartResponse).order.voice is None
    assert types(client.text("Hello."))[-1] == "response.output_text.delta"
    events = client.finish()
    assert types(events) == [
        "response.output_text.done",
        "response.content_part.done",
        "conversation.item.done",
        "response.output_item.done",
        *END,
    ]
    assert events[-2]["response"]["output"][0]["content"] == [
        {"type": "output_text", "text": "Hello."}
    ]
    check_all(client)


def test_an_answer_beside_the_conversation_leaves_no_trace() -> None:
    client = Client()
    client.turn("Hi.")
    main = client.response_id
    question = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "?"}]}
    client.say(
        "response.create",
        response={
            "conversation": "none",
            "output_modalities": ["text"],
            "metadata": {"topic": "mood"},
            "input": [{"type": "item_reference", "id": "item_1"}, question],
        },
    )
    aside = client.last(StartResponse)
    assert aside.response_id != main
    assert [message["content"] for message in aside.order.messages] == ["Hi.", "?"]
    client.text("fine")
    events = client.finish()
    assert not [event for event in events if event["type"].startswith("conversation.")]
    done = events[-2]["response"]
    assert done["conversation_id"] is None
    assert done["metadata"] == {"topic": "mood"}
    client.say("response.cancel", response_id=main)
    client.turn("And?")
    assert len(client.last(StartResponse).order.messages) == 2
    check_all(client)


@pytest.mark.parametrize(
    ("reason", "details"),
    [
        ("length", {"type": "incomplete", "reason": "max_output_tokens"}),
        ("content_filter", {"type": "incomplete", "reason": "content_filter"}),
    ],
)
def test_an_answer_that_stops_early_says_why(reason: str, details: dict[str, Any]) -> None:
    client = Client()
    client.turn("Hi.")
    client.text("Hello")
    assert client.finish(reason)[-2]["response"]["status_details"] == details
    check_all(client)


def test_an_answer_that_fails_says_so_and_the_session_goes_on() -> None:
    client = Client()
    client.turn("Hi.")
    client.text("Hel")
    events = client.note(
        client.session.take_response_failure(
            client.response_id, StageFailedError("gone"), client.now
        )
    )
    done = events[-2]["response"]
    assert done["status"] == "failed"
    assert done["status_details"]["error"]["message"] == "gone"
    assert types(client.turn("Again."))[-1] == "response.created"
    check_all(client)


def waiting_for_the_user() -> tuple[Client, float]:
    """A client that has been answered, and when its silence has lasted for five seconds."""
    client = Client()
    client.detect(idle_timeout_ms=5000)
    client.turn("Hi.")
    speak(client)
    client.finish()
    due = client.session.next_deadline
    assert due is not None
    return client, due


def test_a_user_who_says_nothing_is_spoken_to() -> None:
    client, due = waiting_for_the_user()
    assert due == pytest.approx(client.now + 0.8 + 5.0)
    assert client.note(client.session.time_out(due - 0.01)) == []
    events = client.note(client.session.time_out(due))
    assert types(events) == [
        "input_audio_buffer.timeout_triggered",
        "input_audio_buffer.committed",
        "conversation.item.added",
        "conversation.item.done",
        "response.created",
    ]
    assert "nothing" in client.last(StartResponse).order.messages[-1]["content"]
    check_all(client)


def test_silence_is_not_counted_any_more_when_that_was_switched_off() -> None:
    client, due = waiting_for_the_user()
    client.detect(idle_timeout_ms=None)
    assert client.note(client.session.time_out(due)) == []


def test_a_transcription_session_writes_down_and_does_not_answer() -> None:
    client = Client(kind="transcription")
    assert client.events[0]["session"]["type"] == "transcription"
    client.talk()
    client.rest()
    assert types(client.understand("Good day.")) == [
        "conversation.item.input_audio_transcription.delta",
        "conversation.item.input_audio_transcription.completed",
    ]
    client.append(200)
    client.say("input_audio_buffer.commit")
    asked = client.last(Recognise)
    delta = client.session.take_words_delta(asked.item_id, "And ")
    assert types(client.note(delta)) == ["conversation.item.input_audio_transcription.delta"]
    assert types(client.read("And you?")) == [
        "conversation.item.input_audio_transcription.completed"
    ]
    assert client.count(StartResponse) == 0
    assert the_error(client.say("response.create"))["code"] == "invalid_value"
    check_all(client)


def test_a_session_ends_when_its_time_is_up() -> None:
    client = Client()
    client.turn("Hi.")
    events = client.note(client.session.time_out(4000.0))
    assert the_error(events)["code"] == "session_expired"
    assert [type(order).__name__ for order in client.orders[-2:]] == ["CancelResponse", "Close"]
    assert client.say("response.create") == []
