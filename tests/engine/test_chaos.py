"""Poisson load for three minutes while replicas are killed: nothing is lost, no byte is wrong."""

from __future__ import annotations

import asyncio
import os
import random
import signal

import pytest

from engine.async_omni_engine import AsyncOmniEngine
from tests.engine.running import listen, pids, run_for, running, speak, tones

pytestmark = [pytest.mark.process, pytest.mark.chaos]

DURATION_S = 180.0
KILL_EVERY_S = 5.0
ARRIVALS_PER_S = 6.0
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


async def kill_now_and_then(engine: AsyncOmniEngine, rng: random.Random, until: float) -> int:
    loop, num_kills = asyncio.get_running_loop(), 0
    while loop.time() + KILL_EVERY_S < until:
        await asyncio.sleep(KILL_EVERY_S)
        victims = pids(engine, rng.randrange(2))
        if victims:
            os.kill(victims[0], rng.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGSTOP]))
            num_kills += 1
    return num_kills


def test_no_request_is_lost_and_no_byte_is_wrong_while_replicas_die() -> None:
    async def scenario() -> None:
        rng = random.Random(11)
        loop = asyncio.get_running_loop()
        async with running(tones(2)) as engine:
            spoken = texts(rng)
            twins = [await speak_whole(engine, f"twin{i}", t) for i, t in enumerate(spoken)]
            until = loop.time() + DURATION_S
            killer = asyncio.create_task(kill_now_and_then(engine, rng, until))
            tasks: list[tuple[int, asyncio.Task[bytes]]] = []
            while loop.time() < until:
                await asyncio.sleep(rng.expovariate(ARRIVALS_PER_S))
                number = rng.randrange(NUM_TEXTS)
                way = rng.choice([speak_whole, speak_in_segments])
                coroutine = way(engine, f"r{len(tasks)}", spoken[number])
                tasks.append((number, asyncio.create_task(coroutine)))
            for number, task in tasks:
                assert await task == twins[number]
            assert await killer >= DURATION_S / KILL_EVERY_S - 2
            assert engine.snapshot.counters.num_replays > 0
            assert engine.snapshot.counters.num_failed == 0
            await engine.wait_ready(30)

    run_for(scenario, DURATION_S + 120)
