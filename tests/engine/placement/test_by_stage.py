"""Each call reaches the placement of the replica's stage."""

from __future__ import annotations

from engine.pipeline import PipelineConfig, StageConfig
from engine.placement.by_stage import PlacementByStage
from engine.placement.spec import ReplicaSpec

PIPELINE = PipelineConfig(
    name="p",
    description="d",
    stages=(
        StageConfig(name="near", model="m:load"),
        StageConfig(name="far", model="m:load", placement="remote"),
    ),
)


class Recorder:
    """A placement that has one replica to report as ended."""

    def __init__(self, name: str, fd: int) -> None:
        self.name, self.fd = name, fd
        self.calls: list[str] = []

    def start(self, spec: ReplicaSpec) -> None:
        self.calls.append(f"start {spec.replica_id}")

    def kill(self, replica_id: str) -> None:
        self.calls.append(f"kill {replica_id}")

    def poll_exits(self) -> list[tuple[str, str]]:
        return [(self.name, "ended")]

    def exit_fds(self) -> list[int]:
        return [self.fd]

    def stop(self) -> None:
        self.calls.append("stop")


def test_calls_go_where_they_belong() -> None:
    local, remote = Recorder("local", 3), Recorder("remote", 4)
    placement = PlacementByStage({"local": local, "remote": remote})
    for stage_id, name in enumerate(("near-0", "far-0")):
        placement.start(ReplicaSpec(name, stage_id, 0, PIPELINE, "d", "c", 1.0))
    placement.kill("far-0")
    placement.stop()

    assert local.calls == ["start near-0", "kill far-0", "stop"]
    assert remote.calls == ["start far-0", "kill far-0", "stop"]
    assert placement.poll_exits() == [("local", "ended"), ("remote", "ended")]
    assert placement.exit_fds() == [3, 4]
