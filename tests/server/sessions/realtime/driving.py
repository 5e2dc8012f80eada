"""Drives a realtime session by hand: events in, effects out, and the client's view of them."""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Callable
from typing import Any

from engine.errors import InvalidRequestError
from server.sessions.effects import SendEvent
from server.sessions.realtime.effects import Effect, Recognise, StartResponse
from server.sessions.realtime.response import Usage
from server.sessions.realtime.session import RealtimeSession, SessionSpec
from server.sessions.realtime.turns import WINDOW_MS

RATE = 24000


class TwoVoices:
    def check_voice(self, name: str, path: str) -> None:
        if name not in ("anna", "ben"):
            raise InvalidRequestError("unknown voice; the voices are: anna, ben", param=path)


def counting_ids() -> Callable[[str], str]:
    numbers: dict[str, itertools.count[int]] = {}
    return lambda prefix: f"{prefix}_{next(numbers.setdefault(prefix, itertools.count(1)))}"


class Client:
    """One session, and everything that it has said."""

    def __init__(self, *, kind: str = "realtime", initial: dict[str, Any] | None = None) -> None:
        spec = SessionSpec("cascade", "anna", kind, initial=initial)
        self.session = RealtimeSession(spec, TwoVoices(), counting_ids())
        self.now = 0.0
        self.events: list[dict[str, Any]] = []
        self.orders: list[Effect] = []
        self.epoch = 0
        self.note(self.session.start(0.0))

    def note(self, effects: list[Effect]) -> list[dict[str, Any]]:
        """The events among the effects."""
        events = [effect.data for effect in effects if isinstance(effect, SendEvent)]
        self.events += events
        self.orders += [effect for effect in effects if not isinstance(effect, SendEvent)]
        self.epoch = sum(type(order).__name__ == "ListenAnew" for order in self.orders)
        return events

    def say(self, kind: str, **fields: Any) -> list[dict[str, Any]]:
        return self.note(self.session.receive_text(json.dumps({"type": kind} | fields), self.now))

    def update(self, **session: Any) -> list[dict[str, Any]]:
        return self.say("session.update", session={"type": self.session.config.kind} | session)

    def detect(self, **rules: Any) -> list[dict[str, Any]]:
        """Server turn detection with these rules; ``off=True``: none."""
        detection = None if rules.pop("off", False) else {"type": "server_vad"} | rules
        return self.update(audio={"input": {"turn_detection": detection}})

    def append(self, ms: int, *, level: int = 0) -> list[dict[str, Any]]:
        pcm = level.to_bytes(2, "little", signed=True) * (RATE * ms // 1000)
        return self.say("input_audio_buffer.append", audio=base64.b64encode(pcm).decode())

    def hear(self, ms: int, probability: float) -> list[dict[str, Any]]:
        """Audio, and at once what the detector makes of it."""
        num_windows = ms // WINDOW_MS
        self.now += num_windows * WINDOW_MS / 1000
        events = self.append(num_windows * WINDOW_MS, level=round(probability * 1000))
        values = [probability] * num_windows
        return events + self.note(self.session.take_probabilities(self.epoch, values, self.now))

    def turn(self, words: str, ms: int = 960) -> list[dict[str, Any]]:
        """The user says something; it is understood as soon as they are done."""
        events = self.hear(ms, 0.9) + self.hear(1600, 0.0)
        return events + self.understand(words)

    def understand(self, words: str) -> list[dict[str, Any]]:
        asked = self.last(Recognise)
        return self.note(
            self.session.take_transcript(asked.item_id, asked.attempt, words, self.now)
        )

    def last(self, kind: type[Any]) -> Any:
        return next(order for order in reversed(self.orders) if isinstance(order, kind))

    def count(self, kind: type[Any]) -> int:
        return sum(isinstance(order, kind) for order in self.orders)

    def text(self, delta: str) -> list[dict[str, Any]]:
        return self.note(self.session.take_text(self.response_id, delta))

    def audio(self, ms: float, num_chars: int = 0) -> list[dict[str, Any]]:
        data = bytes(2 * round(RATE * ms / 1000))
        return self.note(self.session.take_audio(self.response_id, data, ms, num_chars, self.now))

    def call(self, index: int, name: str, arguments: str) -> list[dict[str, Any]]:
        return self.note(
            self.session.take_call(self.response_id, index, f"call_{index}", name, arguments)
        )

    def finish(self, reason: str = "stop", usage: Usage | None = None) -> list[dict[str, Any]]:
        return self.note(
            self.session.take_response_end(self.response_id, reason, usage or Usage(), self.now)
        )

    @property
    def response_id(self) -> str:
        response_id: str = self.last(StartResponse).response_id
        return response_id


def types(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


def the_error(events: list[dict[str, Any]]) -> dict[str, Any]:
    (event,) = events
    assert event["type"] == "error"
    error: dict[str, Any] = event["error"]
    return error
