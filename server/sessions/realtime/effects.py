"""What a realtime session asks of the world around it. Carried out in order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

from server.sessions.effects import Close, SendEvent
from server.sessions.realtime.input_audio import Clip


@dataclass(frozen=True, slots=True)
class Listen:
    """Look for speech in this audio (s16le at ``rate`` Hz), which follows on what came before.

    ``take_probabilities`` answers, a value for each window.
    """

    pcm: bytes
    rate: int


@dataclass(frozen=True, slots=True)
class ListenAnew:
    """What is listened to next does not follow on what came before; windows on the way are void."""


@dataclass(frozen=True, slots=True)
class Recognise:
    """Write down a turn. ``take_transcript`` answers with the same ``attempt``."""

    item_id: str
    attempt: int
    clip: Clip
    language: str | None = None
    prompt: str | None = None


@dataclass(frozen=True, slots=True)
class ForgetRecognition:
    """The speaker went on, or the item is gone: nobody waits for this attempt."""

    item_id: str
    attempt: int


@dataclass(frozen=True, slots=True)
class ResponseOrder:
    """What is to be answered, and how. ``messages`` and ``tools`` are those of the chat API.

    ``voice`` is None for an answer in text. ``max_tokens`` None: as many as the model may.
    """

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] = field(default_factory=list)
    tool_choice: Any = "auto"
    parallel_tool_calls: bool | None = None
    max_tokens: int | None = None
    voice: str | None = None
    speed: float = 1.0
    audio_format: str = "audio/pcm"


@dataclass(frozen=True, slots=True)
class StartResponse:
    """Have an answer made; ``take_text``, ``take_audio``, ``take_call`` and an end follow."""

    response_id: str
    order: ResponseOrder


@dataclass(frozen=True, slots=True)
class CancelResponse:
    """Nobody listens to this answer any more: let go of its request at once."""

    response_id: str


Effect: TypeAlias = (
    SendEvent
    | Close
    | Listen
    | ListenAnew
    | Recognise
    | ForgetRecognition
    | StartResponse
    | CancelResponse
)
