"""Pipecat's OpenAI services for speech and for hearing, with nothing changed but their address."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import openai
import pytest
from pipecat.services.openai.stt import OpenAISTTService
from pipecat.services.openai.tts import OpenAITTSService

from tests.clients.pipecat_hearing import check_hearing, local_turns
from tests.clients.pipecat_turns import PATIENCE_S, Conversation, talking
from tests.e2e.server_process import ServerProcess

SENTENCES = ["Better late than never.", "Tickets cost three dollars."]
RUNNING = 'voxloom_engine_requests{state="running"}'
ABORTED = 'voxloom_engine_requests_ended_total{outcome="aborted"}'


@asynccontextmanager
async def speaking(server: ServerProcess) -> AsyncIterator[Conversation]:
    async with openai.DefaultAsyncHttpxClient() as http:
        service = OpenAITTSService(
            api_key="any",
            base_url=f"http://127.0.0.1:{server.port}/v1",
            http_client=http,
            stop_frame_timeout_s=PATIENCE_S,
            settings=OpenAITTSService.Settings(voice="nova", speed=1.25),
        )
        async with talking(service) as conversation:
            yield conversation


def served(server: ServerProcess, text: str) -> bytes:
    return server.speak(text, voice="nova", speed=1.25).read()


def test_what_is_heard_is_what_is_served(narrow_server: ServerProcess) -> None:
    """Tones, for a voice never says a thing twice in the same way."""

    async def run() -> bytes:
        async with speaking(narrow_server) as conversation:
            await conversation.say([*" ".join(SENTENCES)])
            return (await conversation.turn()).audio

    assert asyncio.run(run()) == b"".join(served(narrow_server, text) for text in SENTENCES)


def test_an_interruption_ends_the_request(server: ServerProcess) -> None:
    num_aborted = server.metric(ABORTED)
    long = "and so it goes on " * 220 + "."

    async def run() -> bytes:
        async with speaking(server) as conversation:
            await conversation.say([long])
            await conversation.first_audio()
            await conversation.interrupt()
            await asyncio.to_thread(server.await_count, ABORTED, num_aborted + 1)
            await asyncio.to_thread(server.await_metric, RUNNING, 0)
            await conversation.say([SENTENCES[0]])
            return (await conversation.turn()).audio

    expected = len(served(server, SENTENCES[0]))
    assert 0.8 * expected < len(asyncio.run(run())) < 1.25 * expected


@pytest.mark.asr
def test_segments_are_written_down(server: ServerProcess) -> None:
    async def run() -> None:
        async with openai.DefaultAsyncHttpxClient() as http:
            base_url = f"http://127.0.0.1:{server.port}/v1"
            service = OpenAISTTService(api_key="any", base_url=base_url, http_client=http)
            await check_hearing(local_turns(), service)

    asyncio.run(run())
