"""The placement of each stage behind one interface: a stage has replicas of one kind only."""

from __future__ import annotations

from collections.abc import Mapping

from engine.pipeline import PlacementKind
from engine.placement.spec import Placement, ReplicaSpec


class PlacementByStage:
    """Passes each call on to the placement that the replica's stage asks for."""

    def __init__(self, kinds: Mapping[PlacementKind, Placement]) -> None:
        self._kinds = kinds

    def start(self, spec: ReplicaSpec) -> None:
        self._kinds[spec.pipeline.stages[spec.stage_id].placement].start(spec)

    def kill(self, replica_id: str) -> None:
        for placement in self._kinds.values():
            placement.kill(replica_id)

    def poll_exits(self) -> list[tuple[str, str]]:
        return [exit_ for placement in self._kinds.values() for exit_ in placement.poll_exits()]

    def exit_fds(self) -> list[int]:
        return [fd for placement in self._kinds.values() for fd in placement.exit_fds()]

    def stop(self) -> None:
        for placement in self._kinds.values():
            placement.stop()
