"""What a realtime session asks of the world around it. Carried out in order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

from server.sessions.effects import Close, SendEvent
from server.sessions.realtime.config import TurnRules
from server.sessions.realtime.input_audio import Clip
from server.sessions.realtime.truncation import Truncation


@dataclass(frozen=True, slots=True)
class Hints:
    """What a client knows beforehand of what will be said."""

    language: str | None = None
    languages: list[str] | None = None
    prompt: str | None = None
    keywords: list[str] | None = None


@dataclass(frozen=True, slots=True)
class ListeningOptions:
    """How turns are found in a live stream, and what is known of what is said there."""

    rules: TurnRules
    hints: Hints


@dataclass(frozen=True, slots=True)
class StartListening:
    """Open a live stream, whose first sample is at ``start_ms`` of the session's audio.

    ``take_speech_started`` and so on answer, with its ``epoch``.
    """

    epoch: int
    start_ms: int
    options: ListeningOptions


@dataclass(frozen=True, slots=True)
class Listen:
    """Audio of the live stream, s16le at ``rate`` Hz, behind what came before."""

    pcm: bytes
    rate: int


@dataclass(frozen=True, slots=True)
class ChangeListening:
    """The live stream goes on with these options."""

    options: ListeningOptions


@dataclass(frozen=True, slots=True)
class StopListening:
    """The live stream hears no more. What it has found is still written down."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Recognise:
    """Write down an item's audio. ``take_words`` answers."""

    item_id: str
    clip: Clip
    hints: Hints


@dataclass(frozen=True, slots=True)
class ForgetRecognition:
    """The item is gone: nobody waits for its words."""

    item_id: str


@dataclass(frozen=True, slots=True)
class ResponseOrder:
    """What is to be answered, and how. ``messages`` and ``tools`` are those of the chat API.

    ``clips`` are what a model that hears is to hear at the messages' parts of the type ``audio``.
    ``voice`` is None for an answer in text. ``max_tokens`` None: as many as the model may.
    ``truncation`` None: all messages, or no answer.
    """

    messages: list[dict[str, Any]]
    clips: list[Clip] = field(default_factory=list)
    tools: list[dict[str, Any]] = field(default_factory=list)
    tool_choice: Any = "auto"
    parallel_tool_calls: bool | None = None
    max_tokens: int | None = None
    truncation: Truncation | None = None
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
    | StartListening
    | Listen
    | ChangeListening
    | StopListening
    | Recognise
    | ForgetRecognition
    | StartResponse
    | CancelResponse
)
