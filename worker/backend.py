"""What a worker process runs: the step loop, or a bridge to another engine."""

from __future__ import annotations

from typing import Protocol

from engine.messages import Fingerprint


class ReplicaBackend(Protocol):
    """One replica. ``run`` returns when the orchestrator said stop, or has gone."""

    def fingerprint(self) -> Fingerprint: ...

    def run(self) -> None: ...
