"""Drives a realtime session by hand: events in, effects out, and the client's view of them."""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Callable, Mapping
from typing import Any

from engine.errors import InvalidRequestError
from server.sessions.effects import SendEvent
from server.sessions.realtime.effects import Effect, Recognise, StartListening, StartResponse
from server.sessions.realtime.response import Usage
from server.sessions.realtime.session import RealtimeSession
from server.sessions.realtime.spec import SessionSpec

RATE = 24000


class TwoVoices:
    """Anna, whom some call alloy, and Ben. They speak at any speed but 1.5, and hear no German."""

    def find_voice(self, name: str, path: str) -> str:
        if name not in ("anna", "ben", "alloy"):
            raise InvalidRequestError("unknown voice; the voices are: anna, ben", param=path)
        return "anna" if name == "alloy" else name

    def check_speed(self, speed: float, path: str) -> None:
        if speed == 1.5:
            raise InvalidRequestError(f"{path}: too fast", param=path)

    def check_transcription(self, options: Mapping[str, Any], path: str) -> None:
        if options.get("language") == "de":
            raise InvalidRequestError(f"{path}.language: no German", param=f"{path}.language")


def counting_ids() -> Callable[[str], str]:
    numbers: dict[str, itertools.count[int]] = {}
    return lambda prefix: f"{prefix}_{next(numbers.setdefault(prefix, itertools.count(1)))}"


class Client:
    """One session, and everything that it has said."""

    def __init__(
        self,
        *,
        kind: str = "realtime",
        initial: dict[str, Any] | None = None,
        model_hears: bool = False,
    ) -> None:
        spec = SessionSpec("cascade", "anna", kind, initial=initial, model_hears=model_hears)
        self.session = RealtimeSession(spec, TwoVoices(), counting_ids())
        self.now = 0.0
        self.events: list[dict[str, Any]] = []
        self.orders: list[Effect] = []
        self.epoch = 0
        self.heard_ms = 0
        self.turn_start_ms = 0
        self.is_speaking = False
        self.spoken_ms = 0.0
        self.speaking_in = ""
        self.note(self.session.start(0.0))

    def note(self, effects: list[Effect]) -> list[dict[str, Any]]:
        """The events among the effects."""
        events = [effect.data for effect in effects if isinstance(effect, SendEvent)]
        self.events += events
        self.orders += [effect for effect in effects if not isinstance(effect, SendEvent)]
        self.epoch = self.count(StartListening)
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
        self.heard_ms += ms
        self.now += ms / 1000
        pcm = level.to_bytes(2, "little", signed=True) * (RATE * ms // 1000)
        return self.say("input_audio_buffer.append", audio=base64.b64encode(pcm).decode())

    def talk(self, ms: int = 960) -> list[dict[str, Any]]:
        """The user speaks for so long; the engine notices at once that they have begun."""
        was_speaking = self.is_speaking
        start_ms = self.heard_ms
        events = self.append(ms, level=900)
        if not was_speaking:
            self.is_speaking, self.turn_start_ms = True, start_ms
            started = self.session.take_speech_started(self.epoch, start_ms, self.now)
            events += self.note(started)
        return events

    def rest(self, ms: int = 1600) -> list[dict[str, Any]]:
        """The user is silent long enough for the engine to end their turn."""
        events = self.append(ms)
        self.is_speaking = False
        stopped = self.session.take_speech_stopped(self.epoch, self.heard_ms, self.now)
        return events + self.note(stopped)

    def turn(self, words: str) -> list[dict[str, Any]]:
        """The user says something, and is understood."""
        return self.talk() + self.rest() + self.understand(words)

    def understand(self, words: str) -> list[dict[str, Any]]:
        """The turn that was found last says this."""
        return self.note(
            self.session.take_live_words(self.epoch, self.turn_start_ms, words, self.now)
        )

    def read(self, words: str) -> list[dict[str, Any]]:
        """The audio that was to be written down last says this."""
        asked = self.last(Recognise)
        return self.note(self.session.take_words(asked.item_id, words, self.now))

    def last(self, kind: type[Any]) -> Any:
        return next(order for order in reversed(self.orders) if isinstance(order, kind))

    def count(self, kind: type[Any]) -> int:
        return sum(isinstance(order, kind) for order in self.orders)

    def text(self, delta: str) -> list[dict[str, Any]]:
        return self.note(self.session.take_text(self.response_id, delta))

    def audio(self, ms: float, num_chars: int = 0) -> list[dict[str, Any]]:
        if self.speaking_in != self.response_id:
            self.speaking_in, self.spoken_ms = self.response_id, 0.0
        self.spoken_ms += ms
        marks = [(self.spoken_ms, num_chars)] if num_chars else []
        data = bytes(2 * round(RATE * ms / 1000))
        return self.note(self.session.take_audio(self.response_id, data, ms, marks, self.now))

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
