"""Items: what is left of them, and how their sound is read and shown."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest

from server.audio.g711 import G711Law, G711Writer
from server.sessions.realtime.effects import Recognise
from tests.server.sessions.realtime.driving import Client, the_error, types


def spoken_item(client: Client) -> str:
    """The id of an answer of 800 ms, of which "Hello" takes the first half."""
    client.turn("Hi.")
    client.text("Hello there.")
    client.audio(400, 5)
    item_id: str = client.audio(400, 12)[-1]["item_id"]
    return item_id


def retrieve(client: Client, item_id: str) -> dict[str, Any]:
    (event,) = client.say("conversation.item.retrieve", item_id=item_id)
    content: dict[str, Any] = event["item"]["content"][0]
    return content


def truncate(client: Client, item_id: str, end_ms: int) -> list[dict[str, Any]]:
    return client.say("conversation.item.truncate", item_id=item_id, audio_end_ms=end_ms)


def test_what_was_truncated_does_not_come_back() -> None:
    client = Client()
    item_id = spoken_item(client)
    client.finish()
    assert types(truncate(client, item_id, 500)) == ["conversation.item.truncated"]
    error = the_error(truncate(client, item_id, 800))
    assert error["message"] == "Audio content of 500ms is already shorter than 800ms"
    assert retrieve(client, item_id)["transcript"] == "Hello"
    assert types(truncate(client, item_id, 300)) == ["conversation.item.truncated"]
    assert retrieve(client, item_id)["transcript"] == ""


def test_a_cancelled_answer_is_shown_as_the_model_will_read_it() -> None:
    client = Client()
    client.turn("Hi.")
    client.text("Hello there. And more.")
    item_id = client.audio(800, 12)[-1]["item_id"]
    client.say("response.cancel")
    assert retrieve(client, item_id)["transcript"] == "Hello there."


@pytest.mark.parametrize("law", list(G711Law))
def test_sound_of_an_item_is_in_the_sessions_input_format(law: G711Law) -> None:
    client = Client()
    kind = {G711Law.ULAW: "audio/pcmu", G711Law.ALAW: "audio/pcma"}[law]
    client.update(audio={"input": {"format": {"type": kind}}})
    coded = G711Writer(law).write(np.full(801, 4096, np.int16))
    audio = base64.b64encode(coded).decode()
    item = {"type": "message", "role": "user", "content": [{"type": "input_audio", "audio": audio}]}
    item_id = client.say("conversation.item.create", item=item)[-1]["item"]["id"]
    clip = client.last(Recognise).clip
    assert (clip.rate, len(clip.pcm)) == (8000, 2 * 801)
    assert np.abs(np.frombuffer(clip.pcm, "<i2") - 4096).max() < 200
    assert base64.b64decode(retrieve(client, item_id)["audio"]) == coded


def test_sound_that_came_in_another_format_is_not_shown_in_this_one() -> None:
    client = Client()
    audio = base64.b64encode(bytes(4800)).decode()
    item = {"type": "message", "role": "user", "content": [{"type": "input_audio", "audio": audio}]}
    item_id = client.say("conversation.item.create", item=item)[-1]["item"]["id"]
    assert retrieve(client, item_id)["audio"] == audio
    client.update(audio={"input": {"format": {"type": "audio/pcmu"}}})
    assert "audio" not in retrieve(client, item_id)
