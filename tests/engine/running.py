"""Engines with real processes, for tests: started, used, checked for leaks and ended."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from engine.async_omni_engine import AsyncOmniEngine
from engine.config import EngineConfig
from engine.orchestrator.core import OrchestratorCore
from engine.outputs import InteractionResult, OmniRequestOutput
from engine.pipeline import PipelineConfig, load_pipeline

T = TypeVar("T")

# A replica that gets no processor for some seconds, on a machine that starts several, is not lost.
QUICK = EngineConfig(heartbeat_interval_s=0.2, heartbeat_timeout_s=6.0, restart_backoff_s=0.1)
# Limits against hanging.
TIMEOUT_S = 300.0
READY_S = 120.0
INSPECT_S = 60.0


def tones(num_replicas: int = 1, *, faulty: bool = False, **options: Any) -> PipelineConfig:
    """The tone pipeline, with that many replicas per stage."""
    pipeline = load_pipeline("sine")
    stages = [
        msgspec.structs.replace(stage, num_replicas=num_replicas, **options)
        for stage in pipeline.stages
    ]
    if faulty:
        stages[0] = msgspec.structs.replace(stages[0], model="tests.worker.models.faulty:load")
    return msgspec.structs.replace(pipeline, stages=tuple(stages))


@dataclass
class Heard:
    """All that a caller got of one request."""

    audio: bytearray = field(default_factory=bytearray)
    words: list[Any] = field(default_factory=list)
    answers: list[InteractionResult] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    num_chunks: int = 0
    is_finished: bool = False

    def take(self, output: OmniRequestOutput) -> None:
        assert not self.is_finished, "output after the end"
        if output.audio is not None:
            assert output.start_sample * 2 >= len(self.audio), "a chunk came twice"
            self.audio += output.audio
            self.num_chunks += 1
        self.words += output.payload.get("words", [])
        self.warnings += output.payload.get("warnings", [])
        if output.interaction is not None:
            self.answers.append(output.interaction)
        self.is_finished = output.finished


async def speak(engine: AsyncOmniEngine, request_id: str, text: str, **arguments: Any) -> Heard:
    heard = Heard()
    async for output in engine.generate(request_id, {"text": text}, **arguments):
        heard.take(output)
    assert heard.is_finished
    return heard


async def listen(engine: AsyncOmniEngine, request_id: str) -> Heard:
    """Read a request that was added, to its end."""
    heard = Heard()
    async for output in engine.outputs(request_id):
        heard.take(output)
    return heard


@contextlib.asynccontextmanager
async def running(
    pipeline: PipelineConfig, config: EngineConfig = QUICK, ready_s: float = READY_S
) -> AsyncIterator[AsyncOmniEngine]:
    """An engine that is ready, checked for leaks at the end."""
    engine = AsyncOmniEngine(pipeline, config)
    engine.start()
    try:
        await engine.wait_ready(ready_s)
        yield engine
        await asyncio.to_thread(engine.check_integrity)
    finally:
        await engine.shutdown(0.1)


def run(scenario: Callable[[], Awaitable[T]]) -> T:
    """Run a scenario on a loop of its own, with a limit against hanging."""
    return run_for(scenario, TIMEOUT_S)


def run_for(scenario: Callable[[], Awaitable[T]], limit_s: float) -> T:
    async def limited() -> T:
        return await asyncio.wait_for(scenario(), limit_s)

    return asyncio.run(limited())


def pids(engine: AsyncOmniEngine, stage_id: int) -> list[int]:
    """Process ids of a stage's ready replicas, the busiest first."""

    def look(core: OrchestratorCore) -> list[int]:
        ready = sorted(core.pools[stage_id].ready(), key=lambda r: -len(r.bound))
        return [replica.pid for replica in ready if replica.pid is not None]

    return engine._orchestrator.inspect(look).result(INSPECT_S)


def num_restarts(engine: AsyncOmniEngine, stage_id: int) -> int:
    """Of a stage's replicas, by now: the engine's snapshot may be a tenth of a second old."""

    def look(core: OrchestratorCore) -> int:
        return core.supervisor.health[stage_id].num_restarts

    return engine._orchestrator.inspect(look).result(INSPECT_S)
