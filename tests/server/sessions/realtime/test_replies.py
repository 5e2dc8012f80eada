"""Which turns are answered, and when."""

from __future__ import annotations

from engine.errors import StageFailedError
from server.sessions.realtime.effects import StartResponse
from tests.server.sessions.realtime.driving import Client, types


def questions(client: Client) -> list[str]:
    messages = client.last(StartResponse).order.messages
    return [message["content"] for message in messages if message["role"] == "user"]


def test_what_is_said_into_an_answer_that_goes_on_is_answered_after_it() -> None:
    client = Client()
    client.detect(interrupt_response=False)
    client.turn("Hi.")
    client.text("Hello.")
    assert "response.created" not in types(client.turn("And you?"))
    events = client.finish()
    assert types(events)[-3:] == ["response.done", "rate_limits.updated", "response.created"]
    assert questions(client) == ["Hi.", "And you?"]
    assert "response.created" not in types(client.finish())


def test_an_answer_that_fails_holds_up_nobody() -> None:
    client = Client()
    client.detect(interrupt_response=False)
    client.turn("Hi.")
    client.turn("And you?")
    failed = client.session.take_response_failure(
        client.response_id, StageFailedError("gone"), client.now
    )
    assert types(client.note(failed))[-1] == "response.created"
    again = client.session.take_response_failure(
        client.response_id, StageFailedError("gone"), client.now
    )
    assert "response.created" not in types(client.note(again))


def test_a_turn_that_an_answer_waited_for_is_not_answered_twice() -> None:
    client = Client()
    client.talk()
    client.rest()
    client.say("response.create")
    client.understand("Hi.")
    assert questions(client) == ["Hi."]
    assert "response.created" not in types(client.finish())
    assert client.count(StartResponse) == 1


def test_a_turn_that_was_deleted_meanwhile_is_not_answered() -> None:
    client = Client()
    client.detect(interrupt_response=False)
    client.turn("Hi.")
    client.turn("And you?")
    committed = [e for e in client.events if e["type"] == "input_audio_buffer.committed"]
    client.say("conversation.item.delete", item_id=committed[-1]["item_id"])
    assert "response.created" not in types(client.finish())


def test_a_user_who_speaks_again_is_heard_out_first() -> None:
    client = Client()
    client.detect(interrupt_response=False)
    client.turn("Hi.")
    client.turn("And you?")
    client.talk(96)
    assert "response.created" not in types(client.finish())
    client.rest()
    assert types(client.understand("I mean it."))[-1] == "response.created"
    assert questions(client) == ["Hi.", "And you?", "I mean it."]
