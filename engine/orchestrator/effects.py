"""What the orchestrator's core asks of its shell. The core itself does no I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from engine.messages import AbortedMessage, ToCaller, ToReplica


@dataclass(frozen=True, slots=True)
class SendData:
    """Put a message on a replica's data lane."""

    replica_id: str
    message: ToReplica


@dataclass(frozen=True, slots=True)
class SendControl:
    """Put a message on a replica's control lane."""

    replica_id: str
    message: ToReplica


@dataclass(frozen=True, slots=True)
class Deliver:
    """Hand a message to the caller of its request."""

    message: ToCaller


@dataclass(frozen=True, slots=True)
class AnswerAbort:
    """Tell the caller of an abort that it is complete."""

    message: AbortedMessage


@dataclass(frozen=True, slots=True)
class StartReplica:
    """Start the process of a replica; its Hello or its exit is reported back."""

    stage_id: int
    replica_id: str
    rank: int


@dataclass(frozen=True, slots=True)
class KillReplica:
    """End the process of a replica now; its exit is not reported back."""

    replica_id: str


Effect: TypeAlias = SendData | SendControl | Deliver | AnswerAbort | StartReplica | KillReplica
