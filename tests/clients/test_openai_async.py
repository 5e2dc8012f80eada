"""Many requests of openai-python at once."""

from __future__ import annotations

import asyncio

from openai import AsyncOpenAI

from tests.clients.speech import LONG, hear
from tests.e2e.server_process import ServerProcess

RUNNING = 'voxloom_engine_requests{state="running"}'
NUM_AT_ONCE = 16
TEXTS = ["one " * num_words + "two." for num_words in range(NUM_AT_ONCE)]


def open_client(server: ServerProcess) -> AsyncOpenAI:
    address = f"http://127.0.0.1:{server.port}/v1"
    return AsyncOpenAI(base_url=address, api_key="any", max_retries=0)


async def speak(client: AsyncOpenAI, seed: int) -> bytes:
    async with client.audio.speech.with_streaming_response.create(
        model="tts-1",
        voice="alloy",
        input=TEXTS[seed],
        response_format="pcm",
        extra_body={"seed": seed},
    ) as speech:
        return b"".join([data async for data in speech.iter_bytes(4800)])


async def speak_all(server: ServerProcess) -> list[bytes]:
    async with open_client(server) as client:
        return await asyncio.gather(*(speak(client, seed) for seed in range(NUM_AT_ONCE)))


def test_each_of_sixteen_at_once_gets_its_own_audio(server: ServerProcess) -> None:
    alone = [server.speak(text, voice="alloy", seed=seed).read() for seed, text in enumerate(TEXTS)]

    together = asyncio.run(speak_all(server))

    assert together == alone
    assert len(set(together)) == NUM_AT_ONCE
    assert hear(together[-1], "pcm").duration_s > 3 * hear(together[0], "pcm").duration_s


async def listen(client: AsyncOpenAI, heard: asyncio.Queue[bytes], leave: asyncio.Event) -> None:
    async with client.audio.speech.with_streaming_response.create(
        model="tts-1", voice="alloy", input=LONG, response_format="pcm"
    ) as speech:
        # The reference matters: an iterator that is thrown away closes its response.
        audio = speech.iter_bytes(4800)
        heard.put_nowait(await anext(aiter(audio)))
        await leave.wait()


async def leave_early(server: ServerProcess) -> None:
    """Half of the clients end in the middle of their stream, the others are cancelled there."""
    heard: asyncio.Queue[bytes] = asyncio.Queue()
    leave = asyncio.Event()
    async with open_client(server) as client, asyncio.timeout(300):
        tasks = [asyncio.create_task(listen(client, heard, leave)) for _ in range(NUM_AT_ONCE)]
        for _ in tasks:
            assert len(await heard.get()) == 4800
        await asyncio.to_thread(server.await_metric, RUNNING, NUM_AT_ONCE)
        for task in tasks[::2]:
            task.cancel()
        leave.set()
        await asyncio.gather(*tasks, return_exceptions=True)


def test_clients_that_leave_free_their_slots(server: ServerProcess) -> None:
    asyncio.run(leave_early(server))

    server.await_metric(RUNNING, 0)
    server.await_metric('voxloom_stage_requests{stage="code2wav"}', 0)
