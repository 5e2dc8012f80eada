"""Poisson load for three minutes while replicas are killed: nothing is lost, no byte is wrong.

A replica that dies while it tries a suspect alone has that request fail, and rightly so. Such a one
is not killed here: the next victim is only taken once its suspects have been tried.
"""

from __future__ import annotations

import asyncio
import functools
import os
import random
import signal

import pytest

from engine.async_omni_engine import AsyncOmniEngine
from engine.orchestrator.core import OrchestratorCore
from tests.engine.running import READY_S, listen, run_for, running, speak, tones

pytestmark = [pytest.mark.process, pytest.mark.chaos]

NUM_KILLS = 34
KILL_EVERY_S = 5.0
LOOK_EVERY_S = 0.05
LIMIT_S = 900.0
ARRIVALS_PER_S = 6.0
MAX_RUNNING = 500  # fewer than the engine admits
NUM_TEXTS = 24


def texts(rng: random.Random) -> list[str]:
    return [
        " ".join(f"word{rng.randrange(100)}" for _ in range(rng.randrange(3, 80)))
        for _ in range(NUM_TEXTS)
    ]


async def speak_in_segments(engine: AsyncOmniEngine, request_id: str, text: str) -> bytes:
    await engine.add_request_async(request_id, {"text": ""}, final_stage_id=1, resumable=True)
    reader = asyncio.create_task(listen(engine, request_id))
    for word in text.split():
        await engine.add_streaming_update_async(request_id, word + " ")
    await engine.add_streaming_update_async(request_id, "", resumable=False)
    return bytes((await reader).audio)


async def speak_whole(engine: AsyncOmniEngine, request_id: str, text: str) -> bytes:
    return bytes((await speak(engine, request_id, text)).audio)


def kill_one(core: OrchestratorCore, stage_id: int, sig: signal.Signals) -> bool:
    """Kill the busiest replica of a stage, if there is one without a suspect.

    On the orchestrator's thread: nothing comes between the look and the kill.
    """
    for replica in sorted(core.pools[stage_id].ready(), key=lambda r: -len(r.bound)):
        held = [core._requests[request_id] for request_id in replica.bound]
        is_trying = replica.on_trial or any(r.stages[stage_id].is_suspect for r in held)
        if replica.pid is not None and not is_trying:
            os.kill(replica.pid, sig)
            return True
    return False


async def kill_now_and_then(engine: AsyncOmniEngine, rng: random.Random) -> None:
    for _ in range(NUM_KILLS):
        await asyncio.sleep(KILL_EVERY_S)
        stage_id = rng.randrange(2)
        sig = rng.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGSTOP])
        look = functools.partial(kill_one, stage_id=stage_id, sig=sig)
        # The engine has no event for what is asked here.
        while not await asyncio.wrap_future(engine._orchestrator.inspect(look)):  # noqa: ASYNC110
            await asyncio.sleep(LOOK_EVERY_S)


def test_no_request_is_lost_and_no_byte_is_wrong_while_replicas_die() -> None:
    async def scenario() -> None:
        rng = random.Random(11)
        async with running(tones(2)) as engine:
            spoken = texts(rng)
            twins = [await speak_whole(engine, f"twin{i}", t) for i, t in enumerate(spoken)]
            killer = asyncio.create_task(kill_now_and_then(engine, rng))
            tasks: list[tuple[int, asyncio.Task[bytes]]] = []
            running_tasks: set[asyncio.Task[bytes]] = set()
            while not killer.done():
                await asyncio.sleep(rng.expovariate(ARRIVALS_PER_S))
                if len(running_tasks) >= MAX_RUNNING:
                    await asyncio.wait(running_tasks, return_when=asyncio.FIRST_COMPLETED)
                number = rng.randrange(NUM_TEXTS)
                way = rng.choice([speak_whole, speak_in_segments])
                coroutine = way(engine, f"r{len(tasks)}", spoken[number])
                task = asyncio.create_task(coroutine)
                tasks.append((number, task))
                running_tasks.add(task)
                task.add_done_callback(running_tasks.discard)
            for number, task in tasks:
                assert await task == twins[number]
            await killer
            assert engine.snapshot.counters.num_replays > 0
            assert engine.snapshot.counters.num_failed == 0
            await engine.wait_ready(READY_S)

    run_for(scenario, LIMIT_S)
