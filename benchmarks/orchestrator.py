"""The orchestrator alone: chunk messages routed per second, and what a hop costs.

The rates: the real core and the real wire form in this thread, fed with the encoded messages of
imaginary replicas; no sockets, no processes. The hops: the tone pipeline with real processes.
"""

from __future__ import annotations

import asyncio
import contextlib
import time

import numpy as np

from benchmarks.figures import Figure, Report
from benchmarks.options import Options, run_async
from benchmarks.quantiles import percentile
from engine.async_omni_engine import AsyncOmniEngine
from engine.config import EngineConfig
from engine.messages import (
    ConsumedMessage,
    Fingerprint,
    Hello,
    OutputRow,
    SamplingParams,
    StageOutput,
    StageSubmissionMessage,
)
from engine.orchestrator.core import OrchestratorCore
from engine.orchestrator.effects import Deliver, StartReplica
from engine.pipeline import PipelineConfig, StageConfig, load_pipeline
from engine.wire import decode_from_replica, encode

CHUNK_SAMPLES = 1920
SAMPLE_RATE = 24000
TARGET_RATE = 20_000
PROBE_EVERY_S = 0.02
# The streams begin one after another within this time: it is that of a buffer, so that their
# refills are spread as those of listeners who know nothing of each other.
BEGIN_WITHIN_S = 1.0
NUM_WARM_UP_PROBES = 75


def one_stage() -> PipelineConfig:
    stage = StageConfig(name="tone", model="none:none", engine_output_type="audio")
    return PipelineConfig(name="bench", description="one stage", stages=(stage,))


def submission(request_id: str) -> StageSubmissionMessage:
    prompt = {"text": "x"}
    return StageSubmissionMessage(
        type="add_request",
        request_id=request_id,
        prompt=prompt,
        original_prompt=prompt,
        sampling_params_list=[SamplingParams()],
        final_stage_id=0,
        final_output_stage_ids=[0],
    )


class Routed:
    """A core with a number of running requests, and the chunks that a replica would send."""

    def __init__(self, num_requests: int) -> None:
        self.core = OrchestratorCore(one_stage(), EngineConfig(max_running=num_requests))
        (start,) = [e for e in self.core.start(0.0) if isinstance(e, StartReplica)]
        self.replica_id = start.replica_id
        hello = Hello(self.replica_id, 0, 1, Fingerprint("", "", {}, 1))
        self.core.handle_replica(self.replica_id, hello, 0.0)
        self.ids = [f"request-{i}" for i in range(num_requests)]
        for request_id in self.ids:
            self.core.handle(submission(request_id), 0.0)
        self.positions = [0] * num_requests
        self.audio = np.zeros(CHUNK_SAMPLES, np.int16)

    def frames(self, number: int) -> list[bytes]:
        """The encoded output of a step that brought one request a chunk."""
        index = number % len(self.ids)
        row = OutputRow(
            self.ids[index], {"audio": self.audio}, self.positions[index], CHUNK_SAMPLES
        )
        self.positions[index] += CHUNK_SAMPLES
        return [bytes(frame) for frame in encode(StageOutput([row], 1, 1, 0.1))]

    def route(self, frames: list[bytes]) -> int:
        """Decode, route, and let the caller take what came; the number of chunks delivered."""
        message = decode_from_replica(frames)
        effects = self.core.handle_replica(self.replica_id, message, 0.0)
        return sum(isinstance(effect, Deliver) for effect in effects)

    def consume(self, index: int) -> None:
        self.core.handle(ConsumedMessage(self.ids[index], 0, self.positions[index]), 0.0)


def messages_per_second(num_requests: int, num_chunks: int) -> float:
    routed = Routed(num_requests)
    batches = [routed.frames(number) for number in range(num_chunks)]
    delivered = 0
    started = time.perf_counter()
    for number, frames in enumerate(batches):
        delivered += routed.route(frames)
        if number % 16 == 15:
            routed.consume(number % num_requests)
    elapsed = time.perf_counter() - started
    assert delivered == num_chunks, "a chunk was not delivered"
    return num_chunks / elapsed


def run(options: Options) -> Report:
    """Messages per second at 10, 100 and 1,000 running requests, and the cost of a hop."""
    num_chunks = options.pick(40_000, 500)
    rates = {n: messages_per_second(n, num_chunks) for n in (10, 100, 1000)}
    hops_ms = run_async(_hop_times(options.pick(100, 4), options.pick(400, 8)))
    figures = [
        Figure("chunk messages, 1,000 running", rates[1000], "messages/s", target=TARGET_RATE),
        Figure(
            "cost of a chunk, 1,000 running (reference: 10)",
            1e6 / rates[1000],
            "us",
            reference=1e6 / rates[10],
            better="lower",
        ),
        *(
            Figure(
                f"hop beside 100 real-time streams, p{percent}",
                percentile(hops_ms, percent),
                "ms",
                target=target_ms,
                better="lower",
            )
            for percent, target_ms in ((50, 1.0), (99, 3.0))
        ),
    ]
    return Report("orchestrator", figures, {"rates": rates, "hops_ms": hops_ms})


async def _hop_times(num_streams: int, num_probes: int) -> list[float]:
    """One-note requests, one at a time, beside streams that are read in real time.

    A probe makes three hops: to stage 0, to stage 1, and back. The two steps' own time is taken
    off.
    """
    engine = AsyncOmniEngine(load_pipeline("sine"), EngineConfig(max_buffered_audio_s=1.0))
    engine.start()
    await engine.wait_ready(60)
    listeners = [
        asyncio.create_task(_listen(engine, number, BEGIN_WITHIN_S * number / num_streams))
        for number in range(num_streams)
    ]
    hops_s = []
    num_warm_up = min(NUM_WARM_UP_PROBES, num_probes)
    for number in range(num_warm_up + num_probes):
        await asyncio.sleep(PROBE_EVERY_S)
        started = time.perf_counter()
        async for _ in engine.generate(f"probe-{number}", {"text": "a"}):
            pass
        hops_s.append(time.perf_counter() - started)
    stages = engine.snapshot.stages
    step_ms = sum(s.counters.step_ms / s.counters.num_steps for s in stages)
    for listener in listeners:
        listener.cancel()
    await asyncio.gather(*listeners, return_exceptions=True)
    await engine.shutdown(1)
    steady = hops_s[num_warm_up:]
    return [max(0.0, 1000 * taken_s - step_ms) / 3 for taken_s in steady]


async def _listen(engine: AsyncOmniEngine, number: int, delay_s: float) -> None:
    """Read a long stream as a player would."""
    await asyncio.sleep(delay_s)
    started = time.perf_counter()
    async with contextlib.aclosing(
        engine.generate(f"stream-{number}", {"text": "sound " * 2000})
    ) as outputs:
        async for output in outputs:
            played_s = (output.start_sample + output.num_samples) / SAMPLE_RATE
            await asyncio.sleep(max(0.0, started + played_s - time.perf_counter()))
