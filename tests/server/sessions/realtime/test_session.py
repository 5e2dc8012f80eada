"""What a realtime session accepts, refuses, and leaves alone."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest

from server.audio.g711 import G711Law, G711Writer
from server.sessions.realtime.effects import (
    ChangeListening,
    Listen,
    Recognise,
    StartListening,
    StartResponse,
    StopListening,
)
from tests.server.sessions.realtime.driving import RATE, Client, the_error, types

USER_TEXT = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}
GREETING = {"instructions": "Greet the user."}


def test_the_first_event_shows_the_session() -> None:
    session = Client().events[0]["session"]
    assert session["type"] == "realtime"
    assert session["object"] == "realtime.session"
    assert session["audio"]["output"] == {
        "format": {"type": "audio/pcm", "rate": 24000},
        "voice": "anna",
        "speed": 1.0,
    }
    assert session["audio"]["input"]["turn_detection"]["type"] == "server_vad"


def test_an_update_changes_what_it_names_and_shows_all() -> None:
    client = Client()
    client.update(instructions="Be brief.", audio={"output": {"voice": "ben"}})
    (event,) = client.update(audio={"output": {"speed": 1.25}})
    shown = event["session"]
    assert shown["instructions"] == "Be brief."
    assert shown["audio"]["output"]["voice"] == "ben"
    assert shown["audio"]["output"]["speed"] == 1.25


def test_fields_that_are_not_used_or_not_known_harm_nothing() -> None:
    client = Client()
    events = client.update(
        tracing="auto",
        model="another",
        temperature=0.8,
        truncation={"type": "retention_ratio", "retention_ratio": 0.5},
        audio={"input": {"noise_reduction": {"type": "near_field"}}, "shape": 1},
    )
    assert types(events) == ["session.updated"]
    assert events[0]["session"]["tracing"] == "auto"
    assert "temperature" not in events[0]["session"]
    assert events[0]["session"]["model"] == "cascade"


BAD_UPDATES: list[tuple[dict[str, Any], str]] = [
    ({"audio": {"output": {"voice": "zoe"}}}, "session.audio.output.voice"),
    ({"audio": {"output": {"voice": 3}}}, "session.audio.output.voice"),
    ({"audio": {"output": {"speed": 2}}}, "session.audio.output.speed"),
    ({"audio": {"output": {"format": {"type": "mp3"}}}}, "session.audio.output.format.type"),
    (
        {"audio": {"input": {"format": {"type": "audio/pcm", "rate": 16000}}}},
        "session.audio.input.format.rate",
    ),
    (
        {"audio": {"input": {"turn_detection": {"type": "none"}}}},
        "session.audio.input.turn_detection.type",
    ),
    (
        {"audio": {"input": {"turn_detection": {"type": "server_vad", "threshold": 2}}}},
        "session.audio.input.turn_detection.threshold",
    ),
    ({"output_modalities": ["audio", "text"]}, "session.output_modalities"),
    ({"max_output_tokens": 0}, "session.max_output_tokens"),
    ({"tools": [{"type": "function"}]}, "session.tools[0].name"),
    ({"tools": {"type": "function"}}, "session.tools"),
    (
        {"tools": [{"type": "function", "name": "f", "parameters": {"x": [2**64]}}]},
        "session.tools[0].parameters.x[0]",
    ),
    ({"tool_choice": "maybe"}, "session.tool_choice"),
    ({"instructions": "\ud800"}, "session.instructions"),
    ({"instructions": 5}, "session.instructions"),
    ({"audio": []}, "session.audio"),
    ({"audio": {"output": {"speed": 10**400}}}, "session.audio.output.speed"),
    (
        {"audio": {"input": {"transcription": {"language": "no language"}}}},
        "session.audio.input.transcription.language",
    ),
    (
        {"audio": {"input": {"transcription": {"keywords": "museum"}}}},
        "session.audio.input.transcription.keywords",
    ),
    (
        {"audio": {"input": {"transcription": {"language": "de"}}}},
        "session.audio.input.transcription.language",
    ),
    (
        {"audio": {"input": {"transcription": {"delay": "none"}}}},
        "session.audio.input.transcription.delay",
    ),
    ({"audio": {"output": {"speed": 1.5}}}, "session.audio.output.speed"),
    ({"prompt": {"id": "\ud800"}}, "session.prompt.id"),
    ({"prompt": {"variables": ["x" * 20_000] * 4}}, "session.prompt"),
    ({"type": "transcription"}, "session.type"),
]


@pytest.mark.parametrize(("update", "param"), BAD_UPDATES)
def test_a_bad_update_names_its_field_and_changes_nothing(
    update: dict[str, Any], param: str
) -> None:
    client = Client()
    before = client.session.config.to_json()
    error = the_error(client.update(**({"instructions": "x"} | update)))
    assert error["param"] == param
    assert client.session.config.to_json() == before


BAD_EVENTS: list[tuple[dict[str, Any], str]] = [
    ({}, "invalid_event"),
    ({"type": "no.such.event"}, "invalid_value"),
    ({"type": 5}, "invalid_value"),
    ({"type": "session.update"}, "missing_required_parameter"),
    ({"type": "session.update", "session": {}}, "missing_required_parameter"),
    ({"type": "input_audio_buffer.append"}, "missing_required_parameter"),
    ({"type": "input_audio_buffer.append", "audio": "%%%"}, "invalid_value"),
    ({"type": "input_audio_buffer.append", "audio": "QUJD"}, "invalid_value"),
    ({"type": "input_audio_buffer.commit"}, "input_audio_buffer_commit_empty"),
    ({"type": "conversation.item.create"}, "missing_required_parameter"),
    ({"type": "conversation.item.create", "item": {"type": "message"}}, "invalid_value"),
    ({"type": "conversation.item.create", "item": USER_TEXT | {"id": ""}}, "invalid_value"),
    ({"type": "conversation.item.retrieve"}, "missing_required_parameter"),
    (
        {
            "type": "conversation.item.create",
            "item": {"type": "function_call_output", "call_id": "nobody", "output": "x"},
        },
        "invalid_tool_call_id",
    ),
    (
        {
            "type": "conversation.item.create",
            "item": {"type": "message", "role": "assistant", "content": [{"type": "output_audio"}]},
        },
        "invalid_value",
    ),
    (
        {"type": "conversation.item.create", "item": USER_TEXT, "previous_item_id": "nobody"},
        "item_create_invalid_previous_item_id",
    ),
    (
        {
            "type": "conversation.item.create",
            "item": {"type": "function_call_output", "output": "x"},
        },
        "missing_required_parameter",
    ),
    (
        {"type": "conversation.item.retrieve", "item_id": "nobody"},
        "item_retrieve_invalid_item_id",
    ),
    ({"type": "conversation.item.delete", "item_id": "nobody"}, "item_delete_invalid_item_id"),
    (
        {"type": "conversation.item.truncate", "item_id": "nobody", "audio_end_ms": 0},
        "item_truncate_invalid_item_id",
    ),
    ({"type": "response.cancel"}, "response_cancel_not_active"),
    ({"type": "response.create", "response": []}, "invalid_value"),
    ({"type": "response.create", "response": {"conversation": "other"}}, "invalid_value"),
    (
        {"type": "response.create", "response": {"audio": {"output": {"voice": "zoe"}}}},
        "invalid_value",
    ),
    (
        {"type": "response.create", "response": {"metadata": {str(i): "" for i in range(17)}}},
        "invalid_value",
    ),
    (
        {
            "type": "response.create",
            "response": {"input": [{"type": "item_reference", "id": "nobody"}]},
        },
        "item_reference_invalid_item_id",
    ),
]


@pytest.mark.parametrize(("event", "code"), BAD_EVENTS)
def test_a_bad_event_is_answered_with_its_id_and_nothing_else(
    event: dict[str, Any], code: str
) -> None:
    client = Client()
    fields = {key: value for key, value in event.items() if key != "type"}
    error = the_error(client.say(event.get("type"), event_id="mine", **fields))  # type: ignore[arg-type]
    assert (error["code"], error["event_id"]) == (code, "mine")
    assert types(client.say("conversation.item.create", item=USER_TEXT)) == [
        "conversation.item.added",
        "conversation.item.done",
    ]


@pytest.mark.parametrize("frame", ["", "[]", "{", "nul", "9" * 5000, '{"a":' * 2000])
def test_a_frame_that_is_no_event_is_an_error(frame: str) -> None:
    client = Client()
    assert the_error(client.note(client.session.receive_text(frame, 0.0)))
    assert the_error(client.note(client.session.receive_binary()))


def test_items_keep_the_clients_ids_and_places() -> None:
    client = Client()
    client.say("conversation.item.create", item=USER_TEXT | {"id": "two"})
    (added, _) = client.say(
        "conversation.item.create", item=USER_TEXT | {"id": "one"}, previous_item_id="root"
    )
    assert added["previous_item_id"] is None
    (added, _) = client.say(
        "conversation.item.create", item=USER_TEXT | {"id": "between"}, previous_item_id="one"
    )
    assert added["previous_item_id"] == "one"
    error = the_error(client.say("conversation.item.create", item=USER_TEXT | {"id": "two"}))
    assert error["code"] == "item_create_duplicate_item_id"
    assert types(client.say("conversation.item.delete", item_id="between")) == [
        "conversation.item.deleted"
    ]


def test_null_clears() -> None:
    client = Client()
    client.update(tools=[{"type": "function", "name": "add"}], instructions="x")
    (event,) = client.update(tools=None, instructions=None, audio={"output": {"speed": None}})
    assert (event["session"]["tools"], event["session"]["instructions"]) == ([], "")


def test_what_is_nested_too_deeply_is_refused() -> None:
    client = Client()
    deep: Any = 1
    for _ in range(600):
        deep = [deep]
    assert the_error(client.update(tracing=deep))
    assert types(client.update(instructions="x")) == ["session.updated"]


def test_recordings_of_one_id_cannot_be_told_apart() -> None:
    client = Client()
    audio = base64.b64encode(bytes(2 * RATE)).decode()
    item = {
        "type": "message",
        "role": "user",
        "id": "same",
        "content": [{"type": "input_audio", "audio": audio}],
    }
    error = the_error(client.say("response.create", response={"input": [item, item]}))
    assert error["code"] == "item_create_duplicate_item_id"
    many = [item | {"id": f"r{number}"} for number in range(17)]
    error = the_error(client.say("response.create", response={"input": many}))
    assert error["code"] == "overloaded"
    assert types(client.say("response.create", response={"input": [item]}))[0] == (
        "response.created"
    )


def test_only_one_answer_at_a_time_belongs_to_the_conversation() -> None:
    client = Client()
    client.say("conversation.item.create", item=USER_TEXT)
    client.say("response.create")
    error = the_error(client.say("response.create", event_id="second"))
    assert error["code"] == "conversation_already_has_active_response"
    assert client.response_id in error["message"]
    assert client.count(StartResponse) == 1


def test_only_spoken_answers_can_be_truncated_and_not_beyond_their_end() -> None:
    client = Client()
    client.say("conversation.item.create", item=USER_TEXT | {"id": "mine"})
    error = the_error(client.say("conversation.item.truncate", item_id="mine", audio_end_ms=1))
    assert error["code"] == "unsupported_content_type"
    client.say("response.create")
    client.text("Hello")
    client.audio(100, 5)
    item_id = client.events[-1]["item_id"]
    client.finish()
    error = the_error(client.say("conversation.item.truncate", item_id=item_id, audio_end_ms=57340))
    assert error["message"] == "Audio content of 100ms is already shorter than 57340ms"


def test_the_voice_is_fixed_once_it_was_heard() -> None:
    client = Client()
    client.say("response.create", response=GREETING)
    client.text("Hello")
    client.audio(100, 5)
    error = the_error(client.update(audio={"output": {"voice": "ben"}}))
    assert "fixed" in error["message"]
    assert error["code"] == "cannot_update_voice"
    assert types(client.update(audio={"output": {"voice": "anna"}})) == ["session.updated"]
    assert types(client.update(audio={"output": {"voice": "alloy"}})) == ["session.updated"]


def test_a_voice_may_be_called_by_another_name() -> None:
    client = Client()
    (shown,) = client.update(audio={"output": {"voice": "alloy"}})
    assert shown["session"]["audio"]["output"]["voice"] == "alloy"
    client.say("response.create", response=GREETING)
    assert client.last(StartResponse).order.voice == "anna"


def test_telephone_audio_is_understood() -> None:
    client = Client()
    client.update(
        audio={
            "input": {"format": {"type": "audio/pcmu"}},
            "output": {"format": {"type": "audio/pcma"}},
        }
    )
    coded = G711Writer(G711Law.ULAW).write(np.full(800, 4096, np.int16))
    client.say("input_audio_buffer.append", audio=base64.b64encode(coded).decode())
    heard = client.last(Listen)
    assert (heard.rate, len(heard.pcm)) == (8000, 1600)
    client.say("input_audio_buffer.commit")
    assert client.last(Recognise).clip.duration_ms == 100
    client.say("response.create")
    client.read("Hi.")
    assert client.last(StartResponse).order.audio_format == "audio/pcma"


def test_the_input_format_cannot_change_in_the_middle_of_speech() -> None:
    client = Client()
    client.talk(320)
    update = {"audio": {"input": {"format": {"type": "audio/pcmu"}}}}
    assert the_error(client.update(**update))["param"] == "session.audio.input.format"
    assert client.session.config.input_format.type == "audio/pcm"


def test_cleared_audio_is_forgotten_and_late_news_of_it_too() -> None:
    client = Client()
    client.append(640, level=900)
    epoch = client.epoch
    assert types(client.say("input_audio_buffer.clear")) == ["input_audio_buffer.cleared"]
    assert client.last(StopListening).epoch == epoch
    assert client.session.take_speech_started(epoch, 0, 1.0) == []
    assert the_error(client.say("input_audio_buffer.commit"))["code"] == (
        "input_audio_buffer_commit_empty"
    )
    client.append(100)
    assert client.last(StartListening) == StartListening(
        2, 640, client.last(StartListening).options
    )


def test_a_turn_may_be_committed_while_it_is_spoken() -> None:
    client = Client()
    client.talk()
    events = client.say("input_audio_buffer.commit")
    assert types(events)[0] == "input_audio_buffer.committed"
    assert events[0]["item_id"] == client.events[1]["item_id"]
    assert client.session.take_speech_stopped(client.epoch, 900, client.now) == []


def test_without_detection_nothing_is_listened_for() -> None:
    client = Client()
    client.detect(off=True)
    client.append(500)
    assert client.count(Listen) == 0
    client.detect()
    client.append(500)
    assert client.count(Listen) == 1
    client.detect(threshold=0.8)
    assert client.last(ChangeListening).options.rules.threshold == 0.8
    client.detect(off=True)
    assert client.count(StopListening) == 1


def test_audio_of_an_item_is_written_down_before_it_is_answered() -> None:
    client = Client()
    audio = base64.b64encode(bytes(2 * RATE)).decode()
    part = {"type": "input_audio", "audio": audio}
    client.say(
        "conversation.item.create",
        item={"type": "message", "role": "user", "content": [part]},
    )
    client.say("response.create")
    assert client.count(StartResponse) == 0
    client.read("What is this?")
    assert client.last(StartResponse).order.messages[-1]["content"] == "What is this?"


def test_an_answer_does_not_wait_for_an_item_that_is_gone() -> None:
    client = Client()
    client.detect(off=True)
    client.append(500)
    client.say("input_audio_buffer.commit")
    client.say("response.create", response=GREETING)
    assert client.count(StartResponse) == 0
    client.say("conversation.item.delete", item_id=client.last(Recognise).item_id)
    assert client.count(StartResponse) == 1


def test_long_silence_is_not_kept() -> None:
    client = Client()
    for _ in range(40):
        client.append(960)
    client.detect(off=True)
    client.append(200)
    client.say("input_audio_buffer.commit")
    assert client.last(Recognise).clip.duration_ms < 4000
