"""What a placement starts, what it must be able to do, and how a worker asks to be taken."""

from __future__ import annotations

from typing import Protocol, TypeAlias

import msgspec

from engine.messages import PROTOCOL_VERSION
from engine.pipeline import PipelineConfig
from engine.placement.keys import WorkerKeys

# The identity of a worker that has no replica yet begins with this; a stage's name must not.
JOIN_PREFIX = b"join:"
# An unreachable machine sends no goodbye: a link on which nothing came for this long is closed.
LINK_HEARTBEAT_MS = 2_000
LINK_TIMEOUT_MS = 10_000


class ReplicaSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All that a worker process is told when it starts. ``keys`` go with ``tcp`` endpoints."""

    replica_id: str
    stage_id: int
    rank: int
    pipeline: PipelineConfig
    data_endpoint: str
    control_endpoint: str
    # A worker that hears nothing for this long takes its orchestrator for dead and exits.
    orphan_timeout_s: float
    keys: WorkerKeys | None = None


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


# --- joining: a worker started by hand, on the control port -------------------------------------


class JoinRequest(msgspec.Struct, tag_field="join", tag="request"):
    """A worker offers itself to a stage.

    Unknown fields are let through, so that another version is told that it is one.
    """

    stage: str
    host: str
    pid: int
    protocol_version: int = PROTOCOL_VERSION


class JoinQueued(msgspec.Struct, tag_field="join", tag="queued"):
    """The stage has all the replicas it wants; the worker stands by."""


class JoinAccepted(msgspec.Struct, tag_field="join", tag="accepted"):
    """The worker runs this replica. The host of its endpoints is for the worker to fill in."""

    spec: ReplicaSpec


class JoinRefused(msgspec.Struct, tag_field="join", tag="refused"):
    """The worker is of no use here; ``reason`` is one sentence for its operator."""

    reason: str


JoinAnswer: TypeAlias = JoinQueued | JoinAccepted | JoinRefused
