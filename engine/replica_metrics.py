"""Metrics that a replica sends of an engine of its own."""

from __future__ import annotations

import msgspec


class MetricSample(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One value of a metric, under its full name (``..._total``, ``..._bucket``)."""

    name: str
    labels: dict[str, str]
    value: float


class MetricFamily(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A metric as Prometheus has it: counter, gauge, histogram, and so on."""

    name: str
    kind: str
    documentation: str
    samples: list[MetricSample]
