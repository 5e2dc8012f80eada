"""Calls and their results."""

from __future__ import annotations

from typing import Any

from server.sessions.realtime.effects import StartResponse
from tests.server.sessions.realtime.driving import Client, the_error, types


def call(client: Client) -> str:
    """An answer that calls a function, as a model that counts its calls from 0 has it."""
    events = client.call(0, "add", "{}")
    client.finish()
    call_id: str = next(e["item"]["call_id"] for e in events if "item" in e)
    return call_id


def tell(client: Client, call_id: str, output: str) -> list[dict[str, Any]]:
    item = {"type": "function_call_output", "call_id": call_id, "output": output}
    return client.say("conversation.item.create", item=item)


def test_a_result_needs_its_call() -> None:
    client = Client()
    error = the_error(tell(client, "call_0", "4"))
    assert (error["code"], error["param"]) == ("invalid_tool_call_id", "item.call_id")
    client.turn("Two and two?")
    assert types(tell(client, call(client), "4"))[-1] == "conversation.item.done"


def test_calls_of_two_answers_keep_their_own_results() -> None:
    client = Client()
    client.turn("Two and two?")
    first = call(client)
    tell(client, first, "4")
    client.turn("Three and three?")
    second = call(client)
    tell(client, second, "6")
    assert first != second
    client.say("response.create")
    messages = client.last(StartResponse).order.messages
    asked = [m["tool_calls"][0]["id"] for m in messages if m["role"] == "assistant"]
    told = [(m["tool_call_id"], m["content"]) for m in messages if m["role"] == "tool"]
    assert (asked, told) == ([first, second], [(first, "4"), (second, "6")])


def test_an_item_that_an_answer_is_to_be_about_is_named_by_its_place() -> None:
    client = Client()
    reference = {"type": "item_reference", "id": "nobody"}
    error = the_error(client.say("response.create", response={"input": [reference]}))
    assert error["param"] == "response.input[0].id"
