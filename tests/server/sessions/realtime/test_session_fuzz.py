"""Whatever comes in, a realtime session answers with typed events and orders that make sense."""

from __future__ import annotations

import base64
import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.errors import StageFailedError
from server.sessions.effects import Close, SendEvent
from server.sessions.realtime.effects import (
    CancelResponse,
    Effect,
    ForgetRecognition,
    Recognise,
    StartResponse,
)
from server.sessions.realtime.response import Usage
from tests.server.sessions.realtime.driving import Client

KINDS = (
    *("session.update", "input_audio_buffer.append", "input_audio_buffer.commit"),
    *("input_audio_buffer.clear", "conversation.item.create", "conversation.item.retrieve"),
    *("conversation.item.truncate", "conversation.item.delete", "response.create"),
    *("response.cancel", "output_audio_buffer.clear", "", "response.creates"),
)
ids = st.sampled_from(["item_1", "item_2", "mine", "resp_1", "root", "nobody"])
audio = st.integers(0, 3000).map(lambda size: base64.b64encode(bytes(2 * size)).decode())
junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=5,
)
part = st.fixed_dictionaries(
    {"type": st.sampled_from(["input_text", "input_audio", "output_text", "text"]) | junk},
    optional={"text": st.text(max_size=5) | junk, "audio": audio | junk},
)
item = st.fixed_dictionaries(
    {"type": st.sampled_from(["message", "function_call_output", "item_reference"]) | junk},
    optional={
        "id": ids | junk,
        "role": st.sampled_from(["user", "assistant", "system"]) | junk,
        "content": st.lists(part, max_size=2) | junk,
        "call_id": ids | junk,
        "output": st.text(max_size=5) | junk,
    },
)
detection = st.none() | st.fixed_dictionaries(
    {"type": st.sampled_from(["server_vad", "semantic_vad"]) | junk},
    optional={"create_response": st.booleans(), "idle_timeout_ms": st.integers(0, 9000)},
)
audio_config = st.fixed_dictionaries(
    {},
    optional={
        "input": st.fixed_dictionaries({}, optional={"turn_detection": detection}) | junk,
        "output": junk,
    },
)
GOOD: dict[str, st.SearchStrategy[Any]] = {
    "event_id": st.text(max_size=5) | junk,
    "audio": audio,
    "item": item,
    "item_id": ids,
    "response_id": ids,
    "previous_item_id": ids,
    "audio_end_ms": st.integers(-1, 900),
    "content_index": st.integers(0, 1),
    "session": st.fixed_dictionaries(
        {"type": st.just("realtime")}, optional={"audio": audio_config, "tools": junk}
    ),
    "response": st.fixed_dictionaries(
        {},
        optional={
            "conversation": st.sampled_from(["auto", "none"]),
            "input": st.lists(item, max_size=2) | junk,
            "output_modalities": st.sampled_from([["text"], ["audio"]]) | junk,
        },
    ),
}
fields = st.dictionaries(st.sampled_from(list(GOOD)), junk, max_size=2) | st.fixed_dictionaries(
    {}, optional=GOOD
)
messages = st.builds(
    lambda kind, rest: json.dumps({"type": kind} | rest), st.sampled_from(KINDS) | junk, fields
)
news = st.sampled_from(
    [
        "voice",
        "silence",
        "live words",
        "deaf",
        "words",
        "lost words",
        "text",
        "sound",
        "call",
        "end",
        "failure",
        "later",
    ]
)
steps = st.lists(
    messages | messages | news.map(lambda name: ("news", name)) | st.text(max_size=20), max_size=30
)


class World:
    """Takes effects, and complains of those that make no sense after the ones before."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.making: dict[str, None] = {}
        self.listening: dict[str, None] = {}
        self.is_closed = False

    def take(self, effects: list[Effect]) -> None:
        assert not (self.is_closed and effects), "something came after the close"
        self.client.note(effects)
        for effect in effects:
            match effect:
                case SendEvent(data):
                    json.dumps(data)
                    if data["type"] == "response.done":
                        self.making.pop(data["response"]["id"], None)
                case StartResponse(response_id):
                    assert response_id not in self.making
                    self.making[response_id] = None
                case CancelResponse(response_id):
                    assert response_id in self.making
                case Recognise(item_id):
                    assert item_id not in self.listening
                    self.listening[item_id] = None
                case ForgetRecognition(item_id):
                    del self.listening[item_id]
                case Close():
                    self.is_closed = True

    def tell(self, name: str) -> list[Effect]:
        client = self.client
        session, now = client.session, client.now
        response = next(iter(self.making), "resp_1")
        match name:
            case "voice":
                client.now += 0.32
                return session.take_speech_started(client.epoch, client.heard_ms, client.now)
            case "silence":
                return session.take_speech_stopped(client.epoch, client.heard_ms, now)
            case "live words":
                return session.take_live_words(client.epoch, client.heard_ms, "word", now)
            case "deaf":
                return session.take_listening_failure(client.epoch, StageFailedError("x"), now)
            case "words" | "lost words":
                if not self.listening:
                    return []
                item_id, _ = self.listening.popitem()
                if name == "words":
                    return session.take_words(item_id, "word", now)
                return session.take_words_failure(item_id, StageFailedError("lost"), now)
            case "text":
                return session.take_text(response, "some ")
            case "sound":
                return session.take_audio(response, b"\0\0", 20.0, [(20.0, 3)], now)
            case "call":
                return session.take_call(response, 0, "call", "name", "{}")
            case "end":
                return session.take_response_end(response, "stop", Usage(), now)
            case "failure":
                return session.take_response_failure(response, StageFailedError("broke"), now)
        client.now += 5.0
        return session.time_out(client.now)


def pairs_are_closed(client: Client) -> None:
    """Each answer is created once and done once; nothing of it comes before or after."""
    open_now: set[str] = set()
    for event in client.events:
        kind = event["type"]
        if not kind.startswith("response."):
            continue
        response_id = event["response_id"] if "response_id" in event else event["response"]["id"]
        if kind == "response.created":
            assert response_id not in open_now
            open_now.add(response_id)
        assert response_id in open_now
        if kind == "response.done":
            open_now.remove(response_id)


@settings(
    max_examples=700, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
@given(steps, st.booleans())
def test_ten_thousand_events_are_each_understood_or_answered(
    moves: list[str | tuple[str, str]], model_hears: bool
) -> None:
    client = Client(model_hears=model_hears)
    world = World(client)
    for move in moves:
        if isinstance(move, tuple):
            world.take(world.tell(move[1]))
            continue
        effects = client.session.receive_text(move, client.now)
        world.take(effects)
    pairs_are_closed(client)
    ids_seen = [event["event_id"] for event in client.events]
    assert len(set(ids_seen)) == len(ids_seen)
    world.take(client.session.end(1011, ""))
    assert world.is_closed
    assert client.say("response.create") == []
