"""What an answer may be about: instructions alone, items of its own, and nothing that is lost."""

from __future__ import annotations

from typing import Any

import pytest

from server.sessions.realtime.effects import StartResponse
from tests.server.sessions.realtime.driving import Client, the_error, types

GREET = {"role": "system", "content": "Greet the user."}
CALL = {"type": "function_call", "call_id": "c1", "name": "add", "arguments": "{}"}
RESULT = {"type": "function_call_output", "call_id": "c1", "output": "4"}
USER = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}


def ask(client: Client, **response: Any) -> list[dict[str, Any]]:
    return client.say("response.create", response=response)


def asked_about(client: Client) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = client.last(StartResponse).order.messages
    return messages


@pytest.mark.parametrize("model_hears", [False, True])
def test_an_empty_input_is_answered_from_the_instructions(model_hears: bool) -> None:
    client = Client(model_hears=model_hears)
    client.say("conversation.item.create", item=USER)
    ask(client, input=[], instructions=GREET["content"])
    assert asked_about(client) == [GREET]
    client.finish()
    client.update(instructions=GREET["content"])
    ask(client, input=[], conversation="none")
    assert asked_about(client) == [GREET]


@pytest.mark.parametrize("model_hears", [False, True])
def test_an_answer_to_nothing_is_refused_at_once(model_hears: bool) -> None:
    client = Client(model_hears=model_hears)
    assert the_error(client.say("response.create"))["code"] == "empty_input"
    client.say("conversation.item.create", item=USER)
    error = the_error(ask(client, input=[]))
    assert (error["code"], error["param"]) == ("empty_input", "response.input")
    assert the_error(ask(client, input=[CALL]))["code"] == "empty_input"
    assert client.count(StartResponse) == 0
    assert types(client.say("response.create"))[0] == "response.created"


def test_an_answer_whose_question_turns_out_to_have_no_words_fails() -> None:
    client = Client()
    client.detect(create_response=False)
    client.talk()
    client.rest()
    assert types(client.say("response.create")) == ["response.created"]
    done = client.understand("")[-2]
    assert done["response"]["status"] == "failed"
    assert done["response"]["status_details"]["error"]["code"] == "empty_input"
    assert client.count(StartResponse) == 0
    assert types(ask(client, instructions="Speak."))[0] == "response.created"


def test_a_result_whose_call_is_not_in_the_input_is_named() -> None:
    client = Client()
    client.say("conversation.item.create", item=CALL | {"id": "call"})
    client.say("conversation.item.create", item=RESULT | {"id": "result"})
    error = the_error(ask(client, input=[USER, RESULT]))
    assert error["param"] == "response.input[1].call_id"
    assert error["code"] == "invalid_tool_call_id"
    assert "'c1'" in error["message"]
    referred = {"type": "item_reference", "id": "result"}
    error = the_error(ask(client, input=[referred, USER]))
    assert error["param"] == "response.input[0].id"
    assert client.count(StartResponse) == 0


@pytest.mark.parametrize("call", [CALL, {"type": "item_reference", "id": "call"}])
def test_a_result_goes_with_its_call(call: dict[str, Any]) -> None:
    client = Client()
    client.say("conversation.item.create", item=CALL | {"id": "call"})
    ask(client, input=[call, RESULT])
    assert [message["role"] for message in asked_about(client)] == ["assistant", "tool"]


def test_an_answer_has_its_own_speed_or_the_sessions() -> None:
    client = Client()
    client.update(instructions="Speak.", audio={"output": {"speed": 1.25}})
    error = the_error(ask(client, audio={"output": {"speed": 1.5}}))
    assert error["param"] == "response.audio.output.speed"
    ask(client, audio={"output": {"speed": 0.5}})
    assert client.last(StartResponse).order.speed == 0.5
    client.finish()
    ask(client)
    assert client.last(StartResponse).order.speed == 1.25


def test_an_answers_items_are_told_behind_what_they_follow_when_they_begin_and_end() -> None:
    client = Client()
    client.say("conversation.item.create", item=USER | {"id": "one"})
    client.say("response.create")
    events = client.text("Well, ") + client.call(0, "add", "{}")
    client.say("conversation.item.create", item=USER | {"id": "two"})
    events += client.finish()
    told = [e for e in events if e["type"].startswith("conversation.item.")]
    message, call = told[0]["item"]["id"], told[1]["item"]["id"]
    assert [(e["type"], e["item"]["id"], e["previous_item_id"]) for e in told] == [
        ("conversation.item.added", message, "one"),
        ("conversation.item.added", call, message),
        ("conversation.item.done", message, "one"),
        ("conversation.item.done", call, message),
    ]
