"""Metrics of the engine: what replicas send of their own engines appears beside ours."""

from __future__ import annotations

from prometheus_client import generate_latest

from engine.config import EngineConfig
from engine.messages import Fingerprint, Hello, MetricFamily, MetricSample, Pong
from engine.metrics import EngineMetrics
from engine.orchestrator.core import OrchestratorCore
from engine.orchestrator.snapshot import take_snapshot
from engine.pipeline import PipelineConfig, StageConfig


def running_gauge(value: float) -> list[MetricFamily]:
    sample = MetricSample("vllm:num_requests_running", {"model": "m"}, value)
    return [MetricFamily("vllm:num_requests_running", "gauge", "Running", [sample])]


def core_of_two_replicas() -> tuple[OrchestratorCore, list[str]]:
    stage = StageConfig(name="talker", model="m:m", num_replicas=2)
    core = OrchestratorCore(
        PipelineConfig(name="p", description="d", stages=(stage,)), EngineConfig()
    )
    core.start(0.0)
    names = list(core.pools[0].replicas)
    for name in names:
        core.handle_replica(name, Hello(name, 0, 1, Fingerprint("", "", {}, 1)), 0.0)
    return core, names


def lines_of(core: OrchestratorCore) -> list[str]:
    metrics = EngineMetrics(lambda: take_snapshot(core))
    return generate_latest(metrics.registry).decode().splitlines()


def test_a_replicas_own_metrics_carry_its_stage_and_rank() -> None:
    core, (first, second) = core_of_two_replicas()
    core.handle_replica(first, Pong(1, 0, running_gauge(3)), 1.0)
    core.handle_replica(second, Pong(1, 0, running_gauge(5)), 1.0)
    lines = lines_of(core)
    for rank, value in (("0", "3.0"), ("1", "5.0")):
        labels = f'{{model="m",replica="{rank}",stage="talker"}}'
        assert f"vllm:num_requests_running{labels} {value}" in lines
    assert lines.count("# TYPE vllm:num_requests_running gauge") == 1


def test_the_last_ones_stay_until_newer_ones_come_and_go_with_the_replica() -> None:
    core, (first, _second) = core_of_two_replicas()
    core.handle_replica(first, Pong(1, 0, running_gauge(3)), 1.0)
    core.handle_replica(first, Pong(2, 0), 2.0)
    assert any(line.endswith(" 3.0") and "vllm:" in line for line in lines_of(core))
    core.replica_exited(first, "gone", 3.0)
    assert not any("vllm:" in line for line in lines_of(core))
