"""The metrics of several engines as one set: a family must not come twice in an exposition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from server.engine_port import EnginePort


class EngineFamilies(Collector):
    """The speaking engine's families, with the samples of the others.

    Those have a label ``pipeline``; a server with one engine, and what watches it, needs none.
    """

    def __init__(self, engines: Iterable[EnginePort]) -> None:
        self._engines = tuple(engines)

    def collect(self) -> Iterator[Metric]:
        families: dict[str, Metric] = {}
        for number, engine in enumerate(self._engines):
            labels = {"pipeline": engine.pipeline.name} if number else {}
            for metric in engine.metrics.registry.collect():
                known = families.setdefault(
                    metric.name, Metric(metric.name, metric.documentation, metric.type)
                )
                known.samples += [s._replace(labels={**s.labels, **labels}) for s in metric.samples]
        yield from families.values()


def engine_registry(engines: Iterable[EnginePort]) -> CollectorRegistry:
    """A registry of all engines' metrics, the speaking engine first."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(EngineFamilies(engines))
    return registry
