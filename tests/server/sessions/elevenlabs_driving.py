"""Drives an ElevenLabs session by hand."""

from __future__ import annotations

import json
from typing import Any

from server.audio.formats import AudioFormat
from server.sessions.effects import Effect, SendEvent
from server.sessions.elevenlabs_session import ElevenLabsSession, Manner
from server.sessions.spoken import WordTime
from server.sessions.utterance import AudioPiece
from server.speech_plan import SessionPlan
from tests.server.sessions.driving import RATE

PLAN = SessionPlan(
    prompt={"text": "", "voice": "anna", "speed": 1.0},
    sampling=None,
    fmt=AudioFormat.PCM,
    source_rate=RATE,
    sample_rate=RATE,
    stream_audio=True,
    as_json=True,
    has_words=True,
    granularity="none",
)


def single(**manner: Any) -> ElevenLabsSession:
    return ElevenLabsSession(Manner(PLAN, is_multi=False, **manner))


def multi(**manner: Any) -> ElevenLabsSession:
    return ElevenLabsSession(Manner(PLAN, is_multi=True, **manner))


def say(session: ElevenLabsSession, now: float = 0.0, **fields: Any) -> list[Effect]:
    return session.receive_text(json.dumps(fields), now)


def events(effects: list[Effect]) -> list[dict[str, Any]]:
    return [effect.data for effect in effects if isinstance(effect, SendEvent)]


def spoken(
    num_samples: int,
    words: list[WordTime] | None = None,
    span: tuple[int, int] = (0, 0),
    *,
    ends: bool = False,
    data: bytes = b"ab",
) -> AudioPiece:
    return AudioPiece(data, num_samples, words or [], span, opens=False, ends=ends)


def chars(event: dict[str, Any]) -> str:
    return "".join(event["alignment"]["chars"]) if event["alignment"] else ""
