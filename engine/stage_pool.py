"""The replicas of one stage, and which request is bound to which of them. Pure state, no I/O."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from enum import Enum, auto

from engine.messages import Fingerprint, MetricFamily
from engine.pipeline import StageConfig


class ReplicaState(Enum):
    STARTING = auto()
    READY = auto()
    DRAINING = auto()  # finishes what is bound to it, takes nothing new


@dataclass(slots=True)
class Replica:
    """A replica that has a process.

    ``num_data_sent`` counts its data-lane messages; ``num_held`` is how many requests it said it
    holds in its last pong; ``on_trial`` is the suspect that it is stepping alone now.
    ``started_at`` is None while it waits for a machine to run on. ``metrics`` are the last that it
    sent of an engine of its own.
    """

    replica_id: str
    rank: int
    started_at: float | None
    state: ReplicaState = ReplicaState.STARTING
    bound: set[str] = field(default_factory=set)
    num_data_sent: int = 0
    last_pong_at: float = 0.0
    last_pong_seq: int = 0
    num_held: int = 0
    on_trial: str | None = None
    fingerprint: Fingerprint | None = None
    pid: int | None = None
    metrics: list[MetricFamily] = field(default_factory=list)


class StagePool:
    """Binds requests to ready replicas and counts each binding exactly once."""

    def __init__(self, stage_id: int, config: StageConfig, rng: random.Random | None = None):
        self.stage_id = stage_id
        self.config = config
        self.num_wanted = config.num_replicas
        self.replicas: dict[str, Replica] = {}
        self._bindings: dict[str, str] = {}
        self._rng = rng or random.Random(0)  # noqa: S311 - spreads load, guards nothing
        self._turn = 0

    def ready(self) -> list[Replica]:
        return [r for r in self.replicas.values() if r.state is ReplicaState.READY]

    def add(self, replica: Replica) -> None:
        assert replica.replica_id not in self.replicas, "a replica id is never used twice"
        self.replicas[replica.replica_id] = replica

    def replica_of(self, request_id: str) -> Replica | None:
        replica_id = self._bindings.get(request_id)
        return None if replica_id is None else self.replicas[replica_id]

    def bind(
        self, request_id: str, rank: int | None = None, like: Fingerprint | None = None
    ) -> Replica | None:
        """Bind a request to a ready replica (of that rank, if given); None if there is none.

        One with the fingerprint ``like`` is preferred: only that one promises the same bytes.
        """
        assert request_id not in self._bindings, "a request is bound once per stage"
        candidates = [r for r in self.ready() if rank is None or r.rank == rank]
        if not candidates:
            return None
        alike = [r for r in candidates if like is not None and r.fingerprint == like]
        candidates = alike or candidates
        replica = self._choose(candidates)
        replica.bound.add(request_id)
        self._bindings[request_id] = replica.replica_id
        return replica

    def release(self, request_id: str) -> Replica | None:
        """Undo a binding; harmless when there is none. The replica that was bound, if any."""
        replica_id = self._bindings.pop(request_id, None)
        if replica_id is None:
            return None
        replica = self.replicas[replica_id]
        replica.bound.discard(request_id)
        return replica

    def evict(self, replica_id: str) -> Replica:
        """Forget a replica and undo its bindings; it still says what was bound to it."""
        replica = self.replicas.pop(replica_id)
        for request_id in replica.bound:
            del self._bindings[request_id]
        return replica

    def next_rank(self) -> int:
        """The lowest rank that no replica has."""
        taken = {r.rank for r in self.replicas.values() if r.state is not ReplicaState.DRAINING}
        return next(rank for rank in range(len(taken) + 1) if rank not in taken)

    def check_integrity(self) -> None:
        """Assert that both directions of the bindings agree."""
        forward = {(rid, r.replica_id) for r in self.replicas.values() for rid in r.bound}
        assert forward == set(self._bindings.items()), "bindings and replicas disagree"

    @property
    def num_bound(self) -> int:
        return len(self._bindings)

    def _choose(self, candidates: list[Replica]) -> Replica:
        if self.config.balance == "random":
            return self._rng.choice(candidates)
        if self.config.balance == "round_robin":
            self._turn += 1
            return candidates[self._turn % len(candidates)]
        return min(candidates, key=lambda r: (len(r.bound), r.rank))
