"""What a worker process runs: the step loop, or a bridge to another engine."""

from __future__ import annotations

from typing import Protocol

from engine.messages import Fingerprint


class EngineDiedError(RuntimeError):
    """Another engine, to which this replica is a bridge, has died."""


class ReplicaBackend(Protocol):
    """One replica. ``run`` returns when the orchestrator said stop, or has gone.

    It raises ``EngineDiedError`` when it cannot go on.
    """

    def fingerprint(self) -> Fingerprint: ...

    def run(self) -> None: ...
