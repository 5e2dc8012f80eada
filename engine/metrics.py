"""Prometheus metrics of the engine, read from the orchestrator's last snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from engine.orchestrator.snapshot import Snapshot, StageSnapshot

# From "at once" to the longest a client with a 30 s read timeout would wait.
_WAIT_BUCKETS_S = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class EngineMetrics:
    """The engine's collectors, in a registry of their own."""

    def __init__(self, snapshot: Callable[[], Snapshot]) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(_SnapshotCollector(snapshot))
        self.preprocess_s = Histogram(
            "voxloom_preprocess_seconds",
            "Time that checks and prompt functions took, before a request was queued",
            buckets=_WAIT_BUCKETS_S,
            registry=self.registry,
        )
        self.queue_wait_s = Histogram(
            "voxloom_queue_wait_seconds",
            "Time from a request's arrival until its first stage took it",
            buckets=_WAIT_BUCKETS_S,
            registry=self.registry,
        )


class _SnapshotCollector(Collector):
    def __init__(self, snapshot: Callable[[], Snapshot]) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterator[Metric]:
        snapshot = self._snapshot()
        yield from _request_metrics(snapshot)
        yield from _stage_gauges(snapshot)
        yield from _stage_counters(snapshot)
        yield from _replica_metrics(snapshot)


def _request_metrics(snapshot: Snapshot) -> Iterator[Metric]:
    gauge = GaugeMetricFamily(
        "voxloom_engine_requests", "Requests in the engine now", labels=["state"]
    )
    gauge.add_metric(["running"], snapshot.num_running)
    gauge.add_metric(["waiting"], snapshot.num_waiting)
    yield gauge
    ended = CounterMetricFamily(
        "voxloom_engine_requests_ended", "Requests that ended, by outcome", labels=["outcome"]
    )
    ended.add_metric(["finished"], snapshot.counters.num_finished)
    ended.add_metric(["failed"], snapshot.counters.num_failed)
    ended.add_metric(["aborted"], snapshot.counters.num_aborted)
    yield ended
    replays = CounterMetricFamily(
        "voxloom_engine_replays", "Stages of requests that were started again on a replica"
    )
    replays.add_metric([], snapshot.counters.num_replays)
    yield replays


def _stage_gauges(snapshot: Snapshot) -> Iterator[Metric]:
    replicas = GaugeMetricFamily(
        "voxloom_replicas", "Replicas of a stage", labels=["stage", "state"]
    )
    bound = GaugeMetricFamily(
        "voxloom_stage_requests", "Requests bound to a stage's replicas now", labels=["stage"]
    )
    for stage in snapshot.stages:
        replicas.add_metric([stage.name, "ready"], stage.num_ready)
        replicas.add_metric([stage.name, "wanted"], stage.num_wanted)
        bound.add_metric([stage.name], stage.num_bound)
    yield replicas
    yield bound


def _stage_counters(snapshot: Snapshot) -> Iterator[Metric]:
    fields: dict[str, tuple[str, Callable[[StageSnapshot], float]]] = {
        "voxloom_stage_steps": ("Batched steps", lambda s: s.counters.num_steps),
        "voxloom_stage_subset_steps": (
            "Steps that routed output to fewer requests than their batch held",
            lambda s: s.counters.num_subset_steps,
        ),
        "voxloom_stage_batch_rows": ("Rows of all batches", lambda s: s.counters.num_batch_rows),
        "voxloom_stage_routed_rows": (
            "Rows that output was routed to",
            lambda s: s.counters.num_routed_rows,
        ),
        "voxloom_stage_step_seconds": (
            "Time spent in steps",
            lambda s: s.counters.step_ms / 1000,
        ),
        "voxloom_replica_restarts": ("Replicas started again", lambda s: s.num_restarts),
    }
    for name, (text, value) in fields.items():
        family = CounterMetricFamily(name, text, labels=["stage"])
        for stage in snapshot.stages:
            family.add_metric([stage.name], value(stage))
        yield family


def _replica_metrics(snapshot: Snapshot) -> Iterator[Metric]:
    """What replicas sent of engines of their own (vLLM), under their own names."""
    families: dict[str, Metric] = {}
    for stage in snapshot.stages:
        for rank, sent in sorted(stage.replica_metrics.items()):
            where = {"stage": stage.name, "replica": str(rank)}
            for family in sent:
                metric = families.setdefault(
                    family.name, Metric(family.name, family.documentation, family.kind)
                )
                for sample in family.samples:
                    metric.add_sample(sample.name, sample.labels | where, sample.value)
    yield from families.values()
