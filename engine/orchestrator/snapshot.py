"""A copy of the core's state that other threads may read."""

from __future__ import annotations

from dataclasses import dataclass, replace

from engine.messages import MetricFamily
from engine.orchestrator.core import OrchestratorCore
from engine.orchestrator.counters import CoreCounters, StageCounters


@dataclass(frozen=True, slots=True)
class StageSnapshot:
    """One stage: its replicas and what its steps did so far.

    ``replica_metrics`` are those of the engines that replicas run, by rank.
    """

    name: str
    num_ready: int
    num_wanted: int
    num_bound: int
    num_restarts: int
    failure: str | None
    counters: StageCounters
    replica_metrics: dict[int, list[MetricFamily]]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The orchestrator at one moment."""

    is_ready: bool
    failure: str | None
    num_running: int
    num_waiting: int
    stages: tuple[StageSnapshot, ...]
    counters: CoreCounters


def take_snapshot(core: OrchestratorCore) -> Snapshot:
    """Copy what others may see. Call on the thread that runs the core."""
    stages = tuple(
        StageSnapshot(
            name=pool.config.name,
            num_ready=len(pool.ready()),
            num_wanted=pool.num_wanted,
            num_bound=pool.num_bound,
            num_restarts=health.num_restarts,
            failure=health.failure,
            counters=replace(counters),
            replica_metrics={r.rank: r.metrics for r in pool.ready() if r.metrics},
        )
        for pool, health, counters in zip(
            core.pools, core.supervisor.health, core.counters.stages, strict=True
        )
    )
    return Snapshot(
        is_ready=core.is_ready,
        failure=core.failure,
        num_running=core.num_running,
        num_waiting=core.num_requests - core.num_running,
        stages=stages,
        counters=replace(core.counters, stages=[]),
    )
