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
from tests.worker.vllm.engines import RunningEngine, all_ready, running_engine, stream
from tests.worker.vllm.pipelines import spelled
from tests.worker.vllm.spelling import NUM_TOKENS, sentences_of
from tests.worker.vllm.test_guided_stage import SCALE, check_greedy
from tests.worker.vllm.tiny_model import write_tiny_model

MODEL_PROCESS_BYTES = 2**27

pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("default")]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def running(checkpoint: Path) -> Iterator[RunningEngine]:
    with running_engine(spelled(checkpoint, num_replicas=2)) as engine:
        engine.run(all_ready(engine.engine))
        yield engine


class Listener:
    """One request, and how many of its tokens have come."""

    def __init__(
        self, engine: AsyncOmniEngine, request_id: str, text: str, scale: float | None
    ) -> None:
        self.text = text
        self.scale = scale
        self.tokens: list[int] = []
        self.is_in_the_middle = asyncio.Event()
        # Within the last sentence.
        self._middle = NUM_TOKENS * (len(sentences_of(text)) - 1) + 5
        self._outputs = stream(engine, request_id, text, scale)

    async def read(self) -> None:
        async for output in self._outputs:
            self.tokens += output.payload.get("tokens", [])
            if len(self.tokens) > self._middle:
                self.is_in_the_middle.set()


async def lose_a_process(
    engine: AsyncOmniEngine, listeners: list[Listener], num_in_the_middle: int, victim: int
) -> None:
    """Read all to their end; ``victim`` is killed when so many of the first are in the middle."""
    tasks = [asyncio.create_task(listener.read()) for listener in listeners]
    first = listeners[:num_in_the_middle]
    await asyncio.gather(*(listener.is_in_the_middle.wait() for listener in first))
    os.kill(victim, signal.SIGKILL)
    await asyncio.gather(*tasks)
    await all_ready(engine)


def processes(engine: AsyncOmniEngine) -> list[psutil.Process]:
    """The busier replica's worker, and all that it has started: vLLM's own, helpers of Python's."""
    worker = psutil.Process(pids(engine, 0)[0])
    return [worker, *worker.children(recursive=True)]


def model_process(started: list[psutil.Process]) -> psutil.Process:
    """The one that vLLM runs the model in."""
    (found,) = [c for c in started[1:] if c.memory_info().rss > MODEL_PROCESS_BYTES]
    return found


def test_500_guided_groups_lose_nothing_when_one_of_two_replicas_is_killed(
    running: RunningEngine, checkpoint: Path
) -> None:
    engine = running.engine
    listeners = [Listener(engine, f"r{i}", f"group {i}", SCALE) for i in range(500)]
    started = processes(engine)
    assert model_process(started).is_running()
    running.run(lose_a_process(engine, listeners, 12, started[0].pid))
    for listener in listeners:
        check_greedy(checkpoint, listener.text, listener.scale, listener.tokens)
    assert replays(engine) > 0
    _gone, alive = psutil.wait_procs(started, timeout=300)
    assert alive == []


def test_requests_of_several_passages_go_on_when_vllms_own_process_is_killed(
    running: RunningEngine, checkpoint: Path
) -> None:
    engine = running.engine
    listeners = [
        Listener(engine, f"r{i}", f"sentence {i}. and {i}. last {i}", SCALE if i % 3 else None)
        for i in range(30)
    ]
    started = processes(engine)
    running.run(lose_a_process(engine, listeners, 8, model_process(started).pid))
    for listener in listeners:
        check_greedy(checkpoint, listener.text, listener.scale, listener.tokens)
    _gone, alive = psutil.wait_procs(started, timeout=300)
    assert alive == []


def replays(engine: AsyncOmniEngine) -> int:
    return engine.snapshot.counters.num_replays
