"""The supervisor and replicas of other machines: no start deadline before they are heard of."""

from __future__ import annotations

import pytest

from engine.config import EngineConfig
from engine.orchestrator.core import OrchestratorCore
from engine.orchestrator.effects import Effect, KillReplica, StartReplica
from engine.pipeline import PipelineConfig, PlacementKind, StageConfig


def core_with(placement: PlacementKind, max_restarts: int = 10) -> OrchestratorCore:
    stage = StageConfig(name="s", model="m:load", placement=placement, start_timeout_s=5.0)
    pipeline = PipelineConfig(name="p", description="d", stages=(stage,))
    return OrchestratorCore(pipeline, EngineConfig(max_restarts=max_restarts))


def started(effects: list[Effect]) -> list[str]:
    return [effect.replica_id for effect in effects if isinstance(effect, StartReplica)]


def killed(effects: list[Effect]) -> list[str]:
    return [effect.replica_id for effect in effects if isinstance(effect, KillReplica)]


@pytest.mark.parametrize("placement", ["remote", "ray"])
def test_a_replica_may_wait_for_a_machine_as_long_as_it_takes(placement: PlacementKind) -> None:
    core = core_with(placement)
    (replica_id,) = started(core.start(0.0))

    assert core.tick(1000.0) == []
    core.replica_joined(replica_id, 1000.0)
    assert killed(core.tick(1004.9)) == []
    core.replica_joined(replica_id, 1004.9)  # heard of again: the deadline stays
    assert killed(core.tick(1005.1)) == [replica_id]


def test_a_local_replica_has_its_deadline_from_the_start() -> None:
    core = core_with("local")
    (replica_id,) = started(core.start(0.0))

    core.replica_joined(replica_id, 4.0)

    assert killed(core.tick(5.1)) == [replica_id]


@pytest.mark.parametrize("placement", ["remote", "ray"])
def test_a_first_failure_elsewhere_is_tried_again(placement: PlacementKind) -> None:
    core = core_with(placement, max_restarts=2)
    now = 0.0
    (replica_id,) = started(core.start(now))
    for _ in range(2):
        effects = core.replica_exited(replica_id, "has no disk", now)
        assert core.supervisor.health[0].failure is None
        now += 60.0
        (replica_id,) = started(effects + core.tick(now))

    core.replica_exited(replica_id, "has no disk", now)

    assert core.supervisor.health[0].failure == "stage 's': replica has no disk"


def test_a_first_failure_here_is_final() -> None:
    core = core_with("local")
    (replica_id,) = started(core.start(0.0))

    core.replica_exited(replica_id, "exited", 0.0)

    assert core.supervisor.health[0].failure is not None
