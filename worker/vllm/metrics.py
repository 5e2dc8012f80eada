"""vLLM's own Prometheus metrics, copied now and then for the engine to show beside ours."""

from __future__ import annotations

import time
from collections.abc import Callable

from prometheus_client import REGISTRY

from engine.messages import MetricFamily, MetricSample

_PREFIX = "vllm:"
_INTERVAL_S = 5.0
# vLLM 0.32 has about a thousand values, most of them the buckets of its histograms.
_MAX_SAMPLES = 4000
_MAX_TEXT = 200


class MetricsReader:
    """Reads at most every five seconds: a scrape is seldom more frequent."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._due_at = float("-inf")

    def read_if_due(self) -> list[MetricFamily] | None:
        now = self._clock()
        if now < self._due_at:
            return None
        self._due_at = now + _INTERVAL_S
        return read_metrics()


def read_metrics() -> list[MetricFamily]:
    """All of vLLM's families, as far as they fit the bound; without when they were created."""
    families, num_left = [], _MAX_SAMPLES
    for family in REGISTRY.collect():
        if not family.name.startswith(_PREFIX):
            continue
        samples = [
            MetricSample(s.name, dict(s.labels), s.value)
            for s in family.samples
            if not s.name.endswith("_created")
        ]
        num_left -= len(samples)
        if num_left < 0:
            break
        text = family.documentation[:_MAX_TEXT]
        families.append(MetricFamily(family.name, family.type, text, samples))
    return families
