"""How late the event loop was: the server counts it (``voxloom_event_loop_lag_seconds``)."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from benchmarks.server_process import ServerProcess


def lags_of(server: ServerProcess) -> dict[float, float]:
    """How many lags the server has counted up to each bound, in seconds."""
    _, page = server.get("/metrics")
    (family,) = (
        family
        for family in text_string_to_metric_families(page)
        if family.name == "voxloom_event_loop_lag_seconds"
    )
    buckets = (sample for sample in family.samples if sample.name.endswith("_bucket"))
    return {float(sample.labels["le"]): sample.value for sample in buckets}


def bound_of(counts: dict[float, float], percent: int) -> float:
    """The lowest bound, in seconds, below which that share of the lags is."""
    wanted = counts[float("inf")] * percent / 100
    return next(bound for bound in sorted(counts) if counts[bound] >= wanted)
