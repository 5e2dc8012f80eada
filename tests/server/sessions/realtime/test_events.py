"""From messages to events."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from engine.errors import InvalidRequestError, PayloadTooLargeError
from server.sessions.realtime.events import is_small, read_event
from tests.server.sessions.realtime.driving import Client

PCM = bytes(range(256)) * 2000
AUDIO = base64.b64encode(PCM).decode()


def read(**event: Any) -> dict[str, Any]:
    message = json.dumps(event)
    assert not is_small(message)
    found = read_event(message)
    assert isinstance(found, dict)
    return found


def test_the_audio_of_a_large_event_is_decoded() -> None:
    assert read(type="x", audio=AUDIO) == {"type": "x", "audio": PCM}
    part = {"type": "input_audio", "audio": AUDIO}
    item = read(item={"content": [{"type": "input_text", "text": "a"}, part]})["item"]
    assert item["content"][1]["audio"] == PCM
    assert read(session={"audio": {"input": {}}}, text=AUDIO)["session"] == {"audio": {"input": {}}}
    inline = read(response={"input": [{"content": [part]}]})["response"]["input"]
    assert inline[0]["content"][0]["audio"] == PCM


def test_what_is_called_audio_elsewhere_stays_as_it_is() -> None:
    parameters = {"type": "object", "default": {"audio": "abcd"}}
    tool = {"type": "function", "name": "play", "description": "x" * 100_000}
    session = {"type": "realtime", "tools": [tool | {"parameters": parameters}] * 3}
    event = read(type="session.update", session=session)
    client = Client()
    (updated,) = client.note(client.session.receive_event(event, 0.0))
    assert json.loads(json.dumps(updated))["session"]["tools"][0]["parameters"] == parameters
    odd = {"response": {"input": {"content": 1}}, "item": {"content": {}}, "x": AUDIO}
    assert read(**odd) == odd


def test_broken_audio_is_left_for_the_session_to_refuse() -> None:
    client = Client()
    for message in ("!" + AUDIO, AUDIO[:-2]):
        event = read(type="input_audio_buffer.append", event_id="e", audio=message)
        (error,) = client.note(client.session.receive_event(event, 0.0))
        assert (error["type"], error["error"]["param"]) == ("error", "audio")
        assert error["error"]["event_id"] == "e"


def test_a_large_event_is_heard_as_small_ones_are() -> None:
    client = Client()
    client.note(
        client.session.receive_event(read(type="input_audio_buffer.append", audio=AUDIO), 0)
    )
    (committed, *_) = client.say("input_audio_buffer.commit")
    assert committed["type"] == "input_audio_buffer.committed"


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("", InvalidRequestError),
        ("[]", InvalidRequestError),
        ('{"audio": "' + "A" * 400_000, InvalidRequestError),
        ('{"audio": "' + "A" * 21_400_000 + '"}', PayloadTooLargeError),
    ],
)
def test_what_cannot_be_read_is_an_error(message: str, kind: type[Exception]) -> None:
    assert isinstance(read_event(message), kind)
