"""What a placement starts, and what it must be able to do."""

from __future__ import annotations

from typing import Protocol

import msgspec

from engine.pipeline import PipelineConfig


class ReplicaSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All that a worker process is told when it starts."""

    replica_id: str
    stage_id: int
    rank: int
    pipeline: PipelineConfig
    data_endpoint: str
    control_endpoint: str
    # A worker that hears nothing for this long takes its orchestrator for dead and exits.
    orphan_timeout_s: float


class Placement(Protocol):
    """Starts and ends the processes of replicas. Called from the orchestrator's thread only."""

    def start(self, spec: ReplicaSpec) -> None:
        """Start a replica; a failure to start is reported by ``poll_exits``."""

    def kill(self, replica_id: str) -> None:
        """End a replica now, with everything it started. Unknown ids are ignored."""

    def poll_exits(self) -> list[tuple[str, str]]:
        """Replicas that ended by themselves since the last call: their id and the reason."""

    def exit_fds(self) -> list[int]:
        """Descriptors that become readable when a replica ends, where the system has them."""

    def stop(self) -> None:
        """End all replicas and wait for them."""
