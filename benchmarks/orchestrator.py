"""The orchestrator alone: chunk messages routed per second, and what a hop costs.

``messages``: the real core and the real wire form in this thread, fed with the encoded messages of
imaginary replicas; no sockets, no processes. ``hop``: the tone pipeline with real processes; the
time a request spends between its stages' steps.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from dataclasses import dataclass

import numpy as np

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
    decode_from_replica,
    encode,
)
from engine.orchestrator.core import OrchestratorCore
from engine.orchestrator.effects import Deliver, StartReplica
from engine.pipeline import PipelineConfig, StageConfig, load_pipeline

CHUNK_SAMPLES = 1920
SAMPLE_RATE = 24000
NUM_CHUNKS = 40_000


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
        self.core.handle(ConsumedMessage(self.ids[index], self.positions[index]), 0.0)


def messages_per_second(num_requests: int, num_chunks: int = NUM_CHUNKS) -> float:
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


@dataclass(frozen=True, slots=True)
class HopCost:
    """Milliseconds per hop: total time less the steps' own, by the number of stages."""

    p50_ms: float
    p99_ms: float


async def _hop_cost(num_concurrent: int, num_requests: int) -> HopCost:
    """One-note requests: each makes two hops (caller to stage 0 to stage 1 and back)."""
    engine = AsyncOmniEngine(load_pipeline("sine"))
    engine.start()
    await engine.wait_ready(60)
    slots = asyncio.Semaphore(num_concurrent)
    times: list[float] = []

    async def one(number: int) -> None:
        async with slots:
            started = time.perf_counter()
            async for _ in engine.generate(f"r{number}", {"text": "a"}):
                pass
            times.append((time.perf_counter() - started) * 1000)

    await asyncio.gather(*(one(number) for number in range(num_requests)))
    snapshot = engine.snapshot
    step_ms = sum(s.counters.step_ms / max(1, s.counters.num_steps) for s in snapshot.stages)
    await engine.shutdown(1)
    num_hops = len(snapshot.stages) + 1
    per_hop = sorted((t - step_ms) / num_hops for t in times[len(times) // 10 :])
    return HopCost(statistics.median(per_hop), per_hop[int(0.99 * (len(per_hop) - 1))])


def hop_cost(num_concurrent: int, num_requests: int = 2000) -> HopCost:
    return asyncio.run(_hop_cost(num_concurrent, num_requests))


def main() -> None:
    for num_requests in (10, 100, 1000):
        rate = messages_per_second(num_requests)
        print(f"{num_requests:5d} running: {rate:8.0f} chunk messages/s")
    for num_concurrent in (1, 10, 100):
        cost = hop_cost(num_concurrent)
        print(f"{num_concurrent:5d} at once: hop p50 {cost.p50_ms:.2f} p99 {cost.p99_ms:.2f} ms")


if __name__ == "__main__":
    main()
