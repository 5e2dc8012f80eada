"""One engine with vLLM for the tests of a module: starting takes half a minute."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Iterator
from typing import Any, TypeVar

from prometheus_client import generate_latest

from engine.async_omni_engine import AsyncOmniEngine
from engine.config import EngineConfig
from engine.messages import SamplingParams
from engine.pipeline import PipelineConfig
from tests.worker.vllm.spelling import SAMPLES_PER_TOKEN

T = TypeVar("T")

# Two cores load several models at once here, and heartbeats are late then.
PATIENT = EngineConfig(heartbeat_interval_s=0.5, heartbeat_timeout_s=30.0, max_waiting=2000)
START_TIMEOUT_S = 600.0
SCENARIO_TIMEOUT_S = 600.0


class RunningEngine:
    """An engine, and the event loop that all its scenarios run on.

    A scenario that fails takes its tasks and requests with it: the next one begins with none.
    """

    def __init__(self, runner: asyncio.Runner, engine: AsyncOmniEngine) -> None:
        self._runner = runner
        self.engine = engine

    def run(self, scenario: Awaitable[T]) -> T:
        result = self._runner.run(self._limited(scenario))
        self.engine.check_integrity()
        return result

    async def _limited(self, scenario: Awaitable[T]) -> T:
        before = asyncio.all_tasks()
        try:
            return await asyncio.wait_for(scenario, SCENARIO_TIMEOUT_S)
        except BaseException:
            left = asyncio.all_tasks() - before
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)
            await self.engine.abort(self.engine._table.live_ids())
            raise


@contextlib.contextmanager
def running_engine(
    pipeline: PipelineConfig, config: EngineConfig = PATIENT
) -> Iterator[RunningEngine]:
    """Ready when entered; after each scenario, checked for leaks."""
    engine = AsyncOmniEngine(pipeline, config)
    with asyncio.Runner() as runner:
        engine.start()
        try:
            runner.run(engine.wait_ready(START_TIMEOUT_S))
            yield RunningEngine(runner, engine)
        finally:
            runner.run(engine.shutdown(0.1))


def preemptions(engine: AsyncOmniEngine) -> float:
    """How many rows vLLM has preempted, by its metrics of a few seconds ago."""
    lines = generate_latest(engine.metrics.registry).decode().splitlines()
    found = [line for line in lines if line.startswith("vllm:num_preemptions_total{")]
    return sum(float(line.split()[-1]) for line in found)


async def all_ready(engine: AsyncOmniEngine) -> None:
    """Wait until each stage has as many replicas as it should have."""
    async with asyncio.timeout(START_TIMEOUT_S):
        # The engine has no event for what is asked here.
        while any(s.num_ready < s.num_wanted for s in engine.snapshot.stages):  # noqa: ASYNC110
            await asyncio.sleep(0.1)


async def tokens_of(
    engine: AsyncOmniEngine, request_id: str, text: str, scale: float | None = None, **options: Any
) -> list[int]:
    """The tokens of the language model; the tones must be as long."""
    tokens, num_samples = list[int](), 0
    async for output in stream(engine, request_id, text, scale, **options):
        assert output.request_id == request_id, "a companion became visible"
        tokens += output.payload.get("tokens", [])
        num_samples += output.num_samples if output.audio is not None else 0
    assert num_samples == SAMPLES_PER_TOKEN * len(tokens)
    return tokens


async def stream(
    engine: AsyncOmniEngine,
    request_id: str,
    text: str,
    scale: float | None = None,
    *,
    sampling: SamplingParams | None = None,
    **arguments: Any,
) -> AsyncIterator[Any]:
    given = sampling or SamplingParams(guidance_scale=scale)
    outputs = engine.generate(
        request_id,
        {"text": text},
        sampling_params_list=[given, SamplingParams()],
        final_stage_id=1,
        final_output_stage_ids=[0, 1],
        **arguments,
    )
    async with contextlib.aclosing(outputs) as opened:
        async for output in opened:
            yield output
