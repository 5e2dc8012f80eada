"""A session whose model hears for itself: it is given sound, and waits for nobody's words."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from engine.errors import StageFailedError
from server.sessions.realtime.conversation import MAX_HEARD_MS
from server.sessions.realtime.effects import (
    CancelResponse,
    Recognise,
    ResponseOrder,
    StartResponse,
)
from tests.server.sessions.realtime.driving import RATE, Client, the_error, types

SOUND: dict[str, Any] = {"role": "user", "content": [{"type": "audio"}]}
TURN = [
    "input_audio_buffer.speech_stopped",
    "input_audio_buffer.committed",
    "conversation.item.added",
    "conversation.item.done",
    "response.created",
]
COMPLETED = "conversation.item.input_audio_transcription.completed"
FAILED = "conversation.item.input_audio_transcription.failed"


def hearing(**initial: Any) -> Client:
    return Client(model_hears=True, initial={"type": "realtime"} | initial if initial else None)


def order(client: Client) -> ResponseOrder:
    found: ResponseOrder = client.last(StartResponse).order
    return found


def written(client: Client) -> Client:
    client.update(audio={"input": {"transcription": {"model": "whisper-1"}}})
    return client


def own_sound(ms: int, item_id: str = "mine") -> dict[str, Any]:
    audio = base64.b64encode(bytes(2 * RATE * ms // 1000)).decode()
    parts = [{"type": "input_text", "text": "This:"}, {"type": "input_audio", "audio": audio}]
    return {"type": "message", "id": item_id, "role": "user", "content": parts}


def test_a_turn_is_answered_when_it_is_over_and_its_sound_is_the_question() -> None:
    client = hearing(instructions="Be brief.")
    client.talk(960)
    assert types(client.rest(1600)) == TURN
    assert order(client).messages == [{"role": "system", "content": "Be brief."}, SOUND]
    (clip,) = order(client).clips
    assert (clip.rate, clip.duration_ms) == (RATE, 2560)
    assert clip.pcm[:2] == (900).to_bytes(2, "little")
    assert client.count(Recognise) == 0


def test_words_that_a_client_wants_to_see_come_when_they_come() -> None:
    client = written(hearing())
    client.talk()
    assert types(client.rest()) == TURN
    assert [type(o) for o in client.orders[-2:]] == [StartResponse, Recognise]
    client.text("Hello.")
    assert types(client.read("Hi there.")) == [COMPLETED]
    assert client.count(StartResponse) == 1
    client.finish()
    client.talk()
    client.rest()
    assert order(client).messages == [SOUND, {"role": "assistant", "content": "Hello."}, SOUND]


def test_words_that_cannot_be_had_are_told_and_harm_nothing() -> None:
    client = written(hearing())
    client.talk()
    client.rest()
    asked = client.last(Recognise)
    lost = client.session.take_words_failure(asked.item_id, StageFailedError("no"), client.now)
    assert types(client.note(lost)) == [FAILED]
    client.text("Hello.")
    assert client.finish()[-2]["response"]["status"] == "completed"


def test_turns_that_come_faster_than_they_are_written_down_are_answered_all_the_same() -> None:
    client = written(hearing())
    client.detect(create_response=False)
    failures = 0
    for _ in range(20):
        client.talk()
        failures += types(client.rest()).count(FAILED)
    assert (client.count(Recognise), failures) == (16, 4)
    client.say("response.create")
    assert len(order(client).clips) == 20


def test_a_turn_that_the_client_ends_is_heard_when_it_asks() -> None:
    client = hearing()
    client.detect(off=True)
    client.append(500, level=7)
    client.say("input_audio_buffer.commit")
    assert client.count(StartResponse) == 0
    client.say("response.create")
    assert [clip.duration_ms for clip in order(client).clips] == [500]


def test_a_clients_own_sound_stands_where_it_put_it() -> None:
    client = hearing()
    client.say("conversation.item.create", item=own_sound(300))
    client.say("response.create")
    parts = [{"type": "text", "text": "This:"}, {"type": "audio"}]
    assert order(client).messages == [{"role": "user", "content": parts}]
    assert [clip.duration_ms for clip in order(client).clips] == [300]
    assert client.count(Recognise) == 0


def test_an_answer_beside_the_conversation_hears_what_it_refers_to() -> None:
    client = hearing()
    client.talk(480)
    client.rest(320)
    client.say("response.cancel")
    client.talk()
    client.rest()
    inputs = [{"type": "item_reference", "id": "item_1"}, own_sound(200)]
    client.say("response.create", response={"conversation": "none", "input": inputs})
    assert [clip.duration_ms for clip in order(client).clips] == [800, 200]
    assert len(order(client).messages) == 2


def test_older_turns_are_told_in_words_or_left_out_when_there_is_too_much_sound() -> None:
    client = written(hearing())
    client.detect(create_response=False)
    for words in ("First.", "", "Third.", "Fourth."):
        # What comes before speech is noticed is not kept for long.
        client.talk(96)
        client.talk(MAX_HEARD_MS // 2 - 1696)
        client.rest(1600)
        if words:
            client.read(words)
    client.say("response.create")
    assert order(client).messages == [{"role": "user", "content": "First."}, SOUND, SOUND]
    assert len(order(client).clips) == 2
    usage = client.finish()[-2]["response"]["usage"]
    assert usage["input_token_details"]["audio_tokens"] == MAX_HEARD_MS / 100


def test_a_turn_that_is_too_long_is_not_cut_in_two() -> None:
    client = hearing()
    client.detect(off=True)
    client.append(MAX_HEARD_MS + 1000)
    client.say("input_audio_buffer.commit")
    client.say("response.create")
    assert [clip.duration_ms for clip in order(client).clips] == [MAX_HEARD_MS + 1000]


def test_a_voice_interrupts_and_the_next_answer_knows_what_had_been_heard() -> None:
    client = hearing()
    client.talk()
    client.rest()
    client.text("One two three four five six seven eight nine ten.")
    client.audio(2000)
    events = client.talk(96)
    assert types(events)[0] == "input_audio_buffer.speech_started"
    assert events[-2]["response"]["status_details"]["reason"] == "turn_detected"
    assert client.count(CancelResponse) == 1
    item_id = events[-2]["response"]["output"][0]["id"]
    client.say("conversation.item.truncate", item_id=item_id, content_index=0, audio_end_ms=1000)
    client.rest()
    # Fifteen characters a second.
    assert order(client).messages[1] == {"role": "assistant", "content": "One two three"}


def test_a_turn_said_into_an_answer_that_may_not_be_interrupted_is_answered_after_it() -> None:
    client = hearing()
    client.detect(interrupt_response=False)
    for ms in (480, 960):
        client.talk(ms)
        client.rest(320)
    assert client.count(StartResponse) == 1
    client.text("Hello.")
    assert types(client.finish())[-1] == "response.created"
    assert [clip.duration_ms for clip in order(client).clips] == [800, 1280]
    client.finish()
    assert client.count(StartResponse) == 2


def test_a_text_turn_and_a_written_answer_need_no_sound() -> None:
    client = hearing(output_modalities=["text"])
    part = {"type": "input_text", "text": "Hello"}
    item = {"type": "message", "role": "user", "content": [part]}
    client.say("conversation.item.create", item=item)
    client.say("response.create")
    assert (order(client).clips, order(client).voice) == ([], None)
    assert order(client).messages == [{"role": "user", "content": "Hello"}]


def test_a_tools_result_goes_back_behind_the_sound_that_asked_for_it() -> None:
    tool = {"type": "function", "name": "add", "parameters": {"type": "object"}}
    client = hearing(tools=[tool])
    client.talk()
    client.rest()
    assert [t["function"]["name"] for t in order(client).tools] == ["add"]
    client.call(0, "add", "{}")
    client.finish()
    output = {"type": "function_call_output", "call_id": "call_0", "output": "4"}
    client.say("conversation.item.create", item=output)
    client.say("response.create")
    roles = [message["role"] for message in order(client).messages]
    assert (roles, len(order(client).clips)) == (["user", "assistant", "tool"], 1)


def test_a_user_who_says_nothing_is_spoken_to() -> None:
    client = hearing()
    client.detect(idle_timeout_ms=5000)
    client.talk()
    client.rest()
    client.text("Hello.")
    client.audio(800)
    client.finish()
    due = client.session.next_deadline
    assert due is not None
    assert types(client.note(client.session.time_out(due)))[-1] == "response.created"
    assert "nothing" in order(client).messages[-1]["content"]
    assert len(order(client).clips) == 1


def test_a_deleted_turn_is_heard_no_more() -> None:
    client = written(hearing())
    client.detect(create_response=False)
    client.talk()
    client.rest()
    client.say("conversation.item.delete", item_id="item_1")
    client.talk(480)
    client.rest(320)
    client.say("response.create")
    assert [clip.duration_ms for clip in order(client).clips] == [800]


def test_a_session_that_only_listens_has_each_turn_written_down() -> None:
    client = Client(kind="transcription", model_hears=True)
    client.talk()
    assert types(client.rest()) == TURN[:-1]
    assert types(client.read("Good day."))[-1] == COMPLETED
    assert client.count(StartResponse) == 0


@pytest.mark.parametrize("audio", ["", "A"])
def test_sound_without_samples_is_no_sound(audio: str) -> None:
    client = hearing()
    item = own_sound(0)
    item["content"][1]["audio"] = audio
    events = client.say("conversation.item.create", item=item)
    if audio:
        assert the_error(events)["param"] == "item.content[1].audio"
        return
    client.say("response.create")
    assert order(client).messages == [{"role": "user", "content": "This:"}]
    assert order(client).clips == []
