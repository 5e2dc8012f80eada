"""A language-model stage that loses a replica: its own tokens come back as a prefix."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from engine.async_omni_engine import AsyncOmniEngine
from tests.engine.running import pids
from tests.worker.vllm.engines import START_TIMEOUT_S, RunningEngine, running_engine, stream
from tests.worker.vllm.pipelines import spelled
from tests.worker.vllm.test_guided_stage import SCALE, check_greedy
from tests.worker.vllm.tiny_model import write_tiny_model

pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("default")]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def running(checkpoint: Path) -> Iterator[RunningEngine]:
    with running_engine(spelled(checkpoint, num_replicas=2)) as engine:
        yield engine


class Listener:
    """One request, and how many of its tokens have come."""

    def __init__(self, engine: AsyncOmniEngine, number: int) -> None:
        self.text = f"sentence {number}. and {number}. last {number}"
        self.scale = SCALE if number % 3 else None
        self.tokens: list[int] = []
        self.has_begun = asyncio.Event()
        self._outputs = stream(engine, f"r{number}", self.text, self.scale)

    async def read(self) -> None:
        async for output in self._outputs:
            self.tokens += output.payload.get("tokens", [])
            if len(self.tokens) > 30:  # within the second sentence
                self.has_begun.set()


async def lose_a_process(engine: AsyncOmniEngine, victim: int) -> list[Listener]:
    """All requests, read to their end; ``victim`` is killed while they are in the middle."""
    listeners = [Listener(engine, number) for number in range(30)]
    tasks = [asyncio.create_task(listener.read()) for listener in listeners]
    await asyncio.gather(*(listener.has_begun.wait() for listener in listeners[:8]))
    os.kill(victim, signal.SIGKILL)
    await asyncio.gather(*tasks)
    await engine.wait_ready(START_TIMEOUT_S)
    return listeners


@pytest.mark.parametrize("who", ["the worker", "vLLM's own process"])
def test_after_kill_9_every_request_goes_on_from_its_own_tokens(
    running: RunningEngine, checkpoint: Path, who: str
) -> None:
    worker = psutil.Process(pids(running.engine, 0)[0])
    cores = [child for child in worker.children() if "EngineCore" in " ".join(child.cmdline())]
    cores = cores or [child for child in worker.children() if child.memory_info().rss > 2**27]
    victim = worker if who == "the worker" else cores[0]
    for listener in running.run(lose_a_process(running.engine, victim.pid)):
        check_greedy(checkpoint, listener.text, listener.scale, listener.tokens)
    gone, alive = psutil.wait_procs([worker, *cores], timeout=30)
    assert alive == []
    assert len(gone) >= 2
