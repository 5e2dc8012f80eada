"""Drives a speech session by hand: messages in, effects out, and the client's view of them."""

from __future__ import annotations

import json
from typing import Any

from engine.errors import InvalidRequestError
from server.audio.formats import AudioFormat
from server.schemas.speech_socket import SessionConfig, SessionUpdate
from server.sessions.effects import Effect, SendAudio, SendEvent
from server.sessions.speech_session import SessionLimits, SpeechSession
from server.sessions.spoken import WordTime
from server.sessions.utterance import AudioPiece
from server.speech_plan import SessionPlan

RATE = 1000  # one sample a millisecond


class OneVoice:
    """A server with the voice "anna"."""

    def plan(self, config: SessionConfig) -> SessionPlan:
        if config.voice not in (None, "anna"):
            raise InvalidRequestError("unknown voice; known: anna", param="voice")
        return SessionPlan(
            prompt={"text": "", "voice": "anna", "speed": config.speed or 1.0},
            sampling=None,
            fmt=AudioFormat.PCM,
            source_rate=RATE,
            sample_rate=RATE,
            stream_audio=True,
            as_json=config.audio_transport == "json",
            has_words=bool(config.word_timestamps),
            granularity=config.split_granularity or "none",
        )

    def changes(self, update: SessionUpdate) -> dict[str, Any]:
        if update.voice not in (None, "anna"):
            raise InvalidRequestError("unknown voice; known: anna", param="voice")
        return {} if update.speed is None else {"speed": update.speed}


def new_session(**limits: int) -> SpeechSession:
    return SpeechSession(OneVoice(), SessionLimits(**limits))


def configured(**config: Any) -> SpeechSession:
    session = new_session()
    assert say(session, "session.config", **config) == []
    return session


def say(session: SpeechSession, kind: str, now: float = 0.0, **fields: Any) -> list[Effect]:
    return session.receive_text(json.dumps({"type": kind} | fields), now)


def piece(
    data: bytes = b"ab",
    num_samples: int = 100,
    span: tuple[int, int] = (0, 5),
    words: list[WordTime] | None = None,
    *,
    opens: bool = False,
    ends: bool = False,
    warnings: tuple[str, ...] = (),
) -> AudioPiece:
    return AudioPiece(data, num_samples, words or [], span, opens, ends, warnings)


def events(effects: list[Effect]) -> list[dict[str, Any]]:
    return [effect.data for effect in effects if isinstance(effect, SendEvent)]


def types(effects: list[Effect]) -> list[str]:
    """What the client gets, in order: event types, and ``binary``."""
    return [
        effect.data["type"] if isinstance(effect, SendEvent) else "binary"
        for effect in effects
        if isinstance(effect, SendEvent | SendAudio)
    ]


def the_error(effects: list[Effect]) -> dict[str, Any]:
    (error,) = [event for event in events(effects) if event["type"] == "error"]
    return error
