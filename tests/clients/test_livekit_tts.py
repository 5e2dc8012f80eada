"""LiveKit's OpenAI text to speech, with nothing changed but its address."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from livekit.agents import APIConnectOptions, APIStatusError
from livekit.agents.metrics import TTSMetrics
from livekit.plugins import openai

from tests.clients.conftest import KEY
from tests.clients.speech import LONG, PCM_RATE, check_speech
from tests.e2e.server_process import ServerProcess

pytestmark = [pytest.mark.model, pytest.mark.process]

TEXT = "Better late than never. Dinner is ready in the kitchen."
RUNNING = 'voxloom_engine_requests{state="running"}'
ONCE = APIConnectOptions(max_retry=0, timeout=120.0)
LIMIT_S = 300.0


@asynccontextmanager
async def opened(server: ServerProcess, **options: Any) -> AsyncIterator[openai.TTS]:
    address = f"http://127.0.0.1:{server.port}/v1"
    tts = openai.TTS(**{"base_url": address, "api_key": "any"} | options)
    try:
        yield tts
    finally:
        await tts.aclose()


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(scenario(), LIMIT_S))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"model": "tts-1"},
        {"response_format": "pcm"},
        {"model": "tts-1", "response_format": "wav"},
        {"response_format": "opus", "instructions": "Cheerfully."},
    ],
    ids=["events of mp3", "mp3", "events of pcm", "wav", "events of opus"],
)
def test_a_text_is_spoken(server: ServerProcess, options: dict[str, Any]) -> None:
    async def scenario() -> None:
        async with opened(server, **options) as tts:
            frame = await tts.synthesize(TEXT, conn_options=ONCE).collect()
            assert (frame.sample_rate, frame.num_channels) == (PCM_RATE, 1)
            check_speech(bytes(frame.data), "pcm", 2.5, 6.0)

    run(scenario)


def test_its_metrics_have_the_tokens_that_the_server_counted(server: ServerProcess) -> None:
    async def scenario() -> None:
        told = asyncio.get_running_loop().create_future()
        async with opened(server) as tts:
            tts.on("metrics_collected", told.set_result)
            frame = await tts.synthesize(TEXT, conn_options=ONCE).collect()
            metrics = await told
            assert isinstance(metrics, TTSMetrics)
            assert metrics.input_tokens > 5
            assert metrics.output_tokens == pytest.approx(frame.duration * 20, abs=2)
            assert metrics.request_id

    run(scenario)


@pytest.mark.parametrize("model", ["gpt-4o-mini-tts", "tts-1"])
def test_a_listener_who_leaves_frees_the_slot(server: ServerProcess, model: str) -> None:
    async def scenario() -> None:
        async with opened(server, model=model) as tts:
            speaking = tts.synthesize(LONG, conn_options=ONCE)
            await anext(speaking)
            await asyncio.to_thread(server.await_metric, RUNNING, 1)
            await speaking.aclose()
            await asyncio.to_thread(server.await_metric, RUNNING, 0)

    run(scenario)


@pytest.mark.parametrize("options", [{"voice": "nobody"}, {"model": "gpt-9"}])
def test_what_the_server_has_not_is_an_error_and_no_silence(
    server: ServerProcess, options: dict[str, Any]
) -> None:
    async def scenario() -> None:
        async with opened(server, **options) as tts:
            with pytest.raises(APIStatusError) as caught:
                await tts.synthesize(TEXT, conn_options=ONCE).collect()
            assert caught.value.status_code in (400, 404)

    run(scenario)


def test_a_locked_server_opens_with_its_key_only(locked_server: ServerProcess) -> None:
    async def scenario() -> None:
        async with opened(locked_server, api_key=KEY, voice="alloy") as tts:
            assert (await tts.synthesize(TEXT, conn_options=ONCE).collect()).duration > 0.5
        async with opened(locked_server, api_key="wrong", voice="alloy") as tts:
            with pytest.raises(APIStatusError) as caught:
                await tts.synthesize(TEXT, conn_options=ONCE).collect()
            assert caught.value.status_code == 401

    run(scenario)
