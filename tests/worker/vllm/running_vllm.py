"""A vLLM in this process, for the tests of a module."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from engine.pipeline import LlmConfig
from worker.vllm.adapter import Burst
from worker.vllm.launch import launch, set_environment
from worker.vllm.token_engine import TokenEngine

if TYPE_CHECKING:
    from vllm.v1.engine.async_llm import AsyncLLM

TIMEOUT_S = 600.0


class Vllm:
    """A running ``AsyncLLM``, its loop, and the engine around it."""

    def __init__(self, runner: asyncio.Runner, vllm: AsyncLLM, engine: TokenEngine) -> None:
        self.runner = runner
        self.vllm = vllm
        self.engine = engine

    def run(self, scenario: Any) -> Any:
        return self.runner.run(asyncio.wait_for(scenario, TIMEOUT_S))


class Ignoring:
    """A sink for passages of which only the tokens count."""

    def feed(self, burst: Burst) -> None:
        return None


@contextlib.contextmanager
def running_vllm(llm: LlmConfig) -> Iterator[Vllm]:
    """Started when entered; the environment is as before at the end."""
    before = dict(os.environ)
    set_environment(llm)

    async def start() -> tuple[AsyncLLM, TokenEngine]:
        vllm = launch(llm)
        engine = TokenEngine(vllm, llm)
        await engine.prepare()
        return vllm, engine

    try:
        with asyncio.Runner() as runner:
            vllm, engine = runner.run(start())
            running = Vllm(runner, vllm, engine)
            yield running
            runner.run(_end(vllm, engine))
            # What vLLM leaves to the garbage collector is collected here, and in no test of another
            # module.
            del vllm, engine
            vars(running).clear()
            gc.collect()
    finally:
        os.environ.clear()
        os.environ.update(before)


async def _end(vllm: AsyncLLM, engine: TokenEngine) -> None:
    """On its own loop vLLM closes its sockets at once; their context it would leave open."""
    engine.shutdown()
    vllm.engine_core.resources.ctx.destroy(linger=0)
