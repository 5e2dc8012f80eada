"""What a speech session asks of the world around it. Carried out in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class SendEvent:
    """A JSON message to the client."""

    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class SendAudio:
    """A binary message to the client."""

    data: bytes | memoryview


@dataclass(frozen=True, slots=True)
class StartUtterance:
    """Open a resumable request; its outputs are wanted once the utterances before it are over."""

    utterance_index: int


@dataclass(frozen=True, slots=True)
class AppendText:
    """More text for the request."""

    utterance_index: int
    text: str


@dataclass(frozen=True, slots=True)
class FlushText:
    """Speak what the request holds, although no sentence has ended."""

    utterance_index: int


@dataclass(frozen=True, slots=True)
class ChangeVoice:
    """Change the request's ``voice`` and ``speed`` for the text that comes after."""

    utterance_index: int
    changes: dict[str, Any]


@dataclass(frozen=True, slots=True)
class EndText:
    """The request's text is complete."""

    utterance_index: int


@dataclass(frozen=True, slots=True)
class Abort:
    """Nobody listens to the utterance any more: let go of its request at once."""

    utterance_index: int


@dataclass(frozen=True, slots=True)
class Close:
    """Close the connection; nothing follows."""

    code: int
    reason: str


# For the client, and for the engine.
Outgoing: TypeAlias = SendEvent | SendAudio | Close
Order: TypeAlias = StartUtterance | AppendText | FlushText | ChangeVoice | EndText
Effect: TypeAlias = Outgoing | Order | Abort
