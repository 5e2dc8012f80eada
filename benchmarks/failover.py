"""From kill -9 of a replica to the next chunk of the stream that ran on it.

A long text is read as fast as it comes; the replica of its last stage is killed once the stream is
a few seconds, or a minute, long. The figure is the time from the kill to the end of the longest
pause after it: chunks that were already on their way do not count as the next one.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time

import msgspec

from benchmarks.figures import Figure, Report
from benchmarks.options import Options, run_async
from benchmarks.quantiles import percentile
from benchmarks.texts import sentences
from engine.async_omni_engine import AsyncOmniEngine
from engine.orchestrator.core import OrchestratorCore
from engine.pipeline import PipelineConfig, load_pipeline

TARGET_SPARE_MS = 300.0
TARGET_AFTER_START_MS = 200.0
EARLY_S, LATE_S = 3.0, 60.0


def run(options: Options) -> Report:
    """With a spare replica and without one, early in a stream and a minute into it."""
    num_kills = options.pick(12, 1)
    late_s = LATE_S if not options.quick else 4.0
    early, start_ms = run_async(_pauses(options.pipeline, 2, EARLY_S, num_kills))
    late, _ = run_async(_pauses(options.pipeline, 2, late_s, num_kills))
    single, _ = run_async(_pauses(options.pipeline, 1, EARLY_S, num_kills))
    limit_ms = start_ms + TARGET_AFTER_START_MS
    figures = [
        _figure("with a spare, early", early, TARGET_SPARE_MS),
        _figure("with a spare, 60 s in", late, TARGET_SPARE_MS),
        _figure("the only replica (its start + 200 ms)", single, limit_ms),
    ]
    details = {"early_ms": early, "late_ms": late, "single_ms": single, "start_ms": start_ms}
    return Report("failover", figures, details)


def _figure(name: str, pauses_ms: list[float], target_ms: float) -> Figure:
    value = percentile(pauses_ms, 95)
    return Figure(f"kill to next chunk, {name}, p95", value, "ms", target=target_ms, better="lower")


async def _pauses(
    pipeline_name: str, num_replicas: int, at_s: float, num_kills: int
) -> tuple[list[float], float]:
    """The pauses, and how long a replica of the last stage takes to start, in milliseconds."""
    engine = AsyncOmniEngine(_pipeline(pipeline_name, num_replicas))
    engine.start()
    await engine.wait_ready(120)
    start_ms = await _start_time_ms(engine, num_replicas)
    pauses = []
    for number in range(num_kills):
        pauses.append(await _pause_ms(engine, f"stream-{number}", at_s))
        await _wait_for_replicas(engine, num_replicas)
    await engine.shutdown(0.1)
    return pauses, start_ms


def _pipeline(name: str, num_replicas: int) -> PipelineConfig:
    pipeline = load_pipeline(name)
    last = msgspec.structs.replace(pipeline.stages[-1], num_replicas=num_replicas)
    return msgspec.structs.replace(pipeline, stages=(*pipeline.stages[:-1], last))


async def _start_time_ms(engine: AsyncOmniEngine, num_replicas: int) -> float:
    started = time.perf_counter()
    engine.scale(engine.pipeline.final_stage_id, num_replicas + 1)
    await _wait_for_replicas(engine, num_replicas + 1)
    elapsed_ms = 1000 * (time.perf_counter() - started)
    engine.scale(engine.pipeline.final_stage_id, num_replicas)
    return elapsed_ms


async def _wait_for_replicas(engine: AsyncOmniEngine, num_ready: int) -> None:
    while engine.snapshot.stages[-1].num_ready != num_ready:  # noqa: ASYNC110 - a snapshot has no event
        await asyncio.sleep(0.02)


async def _pause_ms(engine: AsyncOmniEngine, request_id: str, at_s: float) -> float:
    text = " ".join(sentences(7, int(at_s / 5) + 12, 20))
    killed_at: float | None = None
    arrivals: list[float] = []
    async for output in engine.generate(request_id, {"text": text}):
        now = time.perf_counter()
        if killed_at is not None:
            arrivals.append(now)
        elif output.start_sample >= at_s * output.sample_rate:
            os.kill(await asyncio.to_thread(_pid, engine, request_id), signal.SIGKILL)
            killed_at = time.perf_counter()
    assert killed_at is not None, "the stream ended before the kill"
    assert arrivals, "the stream ended with the kill"
    before = [killed_at, *arrivals]
    longest = max(range(len(arrivals)), key=lambda i: arrivals[i] - before[i])
    return 1000 * (arrivals[longest] - killed_at)


def _pid(engine: AsyncOmniEngine, request_id: str) -> int:
    """The process of the last stage's replica that runs the request."""

    def find(core: OrchestratorCore) -> int | None:
        replica = core.pools[-1].replica_of(request_id)
        return None if replica is None else replica.pid

    pid = engine._orchestrator.inspect(find).result(10)
    assert pid is not None, "the request is not in its last stage"
    return pid
