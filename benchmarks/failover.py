"""From kill -9 of a replica to the next chunk of the stream that ran on it.

A long text is read as fast as it comes; the replica of its last stage is killed once the stream is
a few seconds, or a minute, long. The figure is the time from the kill to the end of the longest
pause before one of the next chunks: one that was already on its way does not count as the next.
What a replica takes to start is measured before each kill, at the same load of the machine.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

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
_LOOK_TIMEOUT_S = 60.0
# When a replica dies, a chunk or two of a stream may be on their way to the engine. A pause that
# comes later has another cause, such as the replica that is being started.
_NUM_NEXT_CHUNKS = 3


@dataclass(frozen=True, slots=True)
class _Kill:
    """``at`` in seconds; ``position``: the sample up to which the engine had the stream then."""

    at: float
    position: int


def run(options: Options) -> Report:
    """With a spare replica and without one, early in a stream and a minute into it."""
    num_kills = options.pick(12, 1)
    late_s = LATE_S if not options.quick else 4.0
    early, _ = run_async(_pauses(options.pipeline, 2, EARLY_S, num_kills))
    late, _ = run_async(_pauses(options.pipeline, 2, late_s, num_kills))
    single, starts = run_async(_pauses(options.pipeline, 1, EARLY_S, num_kills))
    single_late, starts_late = run_async(_pauses(options.pipeline, 1, late_s, num_kills))
    figures = [
        _figure("with a spare, early", early, TARGET_SPARE_MS),
        _figure("with a spare, 60 s in", late, TARGET_SPARE_MS),
        _figure("the only replica, early", single, _limit_ms(starts)),
        _figure("the only replica, 60 s in", single_late, _limit_ms(starts_late)),
        Figure("start of a replica, p50", median(starts + starts_late), "ms", better="lower"),
    ]
    details = {
        "early_ms": early,
        "late_ms": late,
        "single_ms": single,
        "single_late_ms": single_late,
        "start_ms": starts + starts_late,
    }
    return Report("failover", figures, details)


def _limit_ms(starts: list[float]) -> float:
    """``starts`` of the same part of the run: the machine may be slower in another one."""
    return median(starts) + TARGET_AFTER_START_MS


def _figure(name: str, pauses_ms: list[float], target_ms: float) -> Figure:
    value = percentile(pauses_ms, 95)
    return Figure(f"kill to next chunk, {name}, p95", value, "ms", target=target_ms, better="lower")


async def _pauses(
    pipeline_name: str, num_replicas: int, at_s: float, num_kills: int
) -> tuple[list[float], list[float]]:
    """The pauses, and what a replica of the last stage took to start before each, in ms."""
    engine = AsyncOmniEngine(_pipeline(pipeline_name, num_replicas))
    engine.start()
    await engine.wait_ready(120)
    starts, pauses = [], []
    for number in range(num_kills):
        starts.append(await _start_time_ms(engine, num_replicas))
        pauses.append(await _pause_ms(engine, f"stream-{number}", at_s))
        await _wait_for_replicas(engine, num_replicas)
    await engine.shutdown(0.1)
    return pauses, starts


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
    await _wait_for_replicas(engine, num_replicas)
    return elapsed_ms


async def _wait_for_replicas(engine: AsyncOmniEngine, num_ready: int) -> None:
    while engine.snapshot.stages[-1].num_ready != num_ready:  # noqa: ASYNC110 - a snapshot has no event
        await asyncio.sleep(0.02)


async def _pause_ms(engine: AsyncOmniEngine, request_id: str, at_s: float) -> float:
    text = " ".join(sentences(7, int(at_s / 5) + 12, 20))
    kill: _Kill | None = None
    times: list[float] = []
    async for output in engine.generate(request_id, {"text": text}):
        if kill is not None and output.start_sample >= kill.position:
            times.append(time.perf_counter())
        elif kill is None and output.start_sample >= at_s * output.sample_rate:
            kill = await asyncio.to_thread(_kill_its_replica, engine, request_id)
    assert kill is not None, "the stream ended before the kill"
    return 1000 * (_end_of_longest_pause([kill.at, *times]) - kill.at)


def _end_of_longest_pause(times: list[float]) -> float:
    """``times``: of the kill, and of the chunks that came after it."""
    assert len(times) > _NUM_NEXT_CHUNKS, "the stream ended with the kill"
    pauses = [(after - before, after) for before, after in pairwise(times[: _NUM_NEXT_CHUNKS + 1])]
    return max(pauses)[1]


def _kill_its_replica(engine: AsyncOmniEngine, request_id: str) -> _Kill:
    """On the orchestrator's thread, so that it is known how much of the stream it had by then."""

    def kill(core: OrchestratorCore) -> _Kill:
        replica = core.pools[-1].replica_of(request_id)
        assert replica is not None, "the request is not in its last stage"
        assert replica.pid is not None, "a replica that is ready has a process"
        os.kill(replica.pid, signal.SIGKILL)
        return _Kill(time.perf_counter(), core._requests[request_id].stages[-1].position)

    return engine._orchestrator.inspect(kill).result(_LOOK_TIMEOUT_S)
