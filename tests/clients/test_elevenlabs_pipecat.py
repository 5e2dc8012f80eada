"""Pipecat's ElevenLabs services, with nothing changed but their address."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import aiohttp
import numpy as np
import pytest
from pipecat.frames.frames import TTSAudioRawFrame
from pipecat.services.elevenlabs.tts import ElevenLabsHttpTTSService, ElevenLabsTTSService
from pipecat.services.tts_service import TextAggregationMode

from tests.clients.pipecat_turns import PATIENCE_S, RATE, Conversation, Turn, talking
from tests.e2e.server_process import ServerProcess

TEXT = "Better late than never. Tickets cost $3.50, don't they? Dinner is ready."
WORDS = TEXT.split(" ")
RUNNING = 'voxloom_engine_requests{state="running"}'


def tokens(text: str) -> list[str]:
    return [text[start : start + 4] for start in range(0, len(text), 4)]


def check_turn(turn: Turn) -> None:
    """Every word is told in order, and sounds when it is told."""
    assert [word for word, _ in turn.words] == WORDS
    times_s = [at for _, at in turn.words]
    assert times_s == sorted(times_s)
    samples = np.frombuffer(turn.audio, np.int16).astype(np.float64)
    assert 3.0 < len(samples) / RATE < 9.0
    loud = np.abs(samples).max()
    for word in ("Tickets", "Dinner"):  # there is a pause before each
        at = round(times_s[WORDS.index(word)] * RATE)
        before = np.abs(samples[at - RATE // 10 : at - RATE // 100]).mean()
        behind = np.abs(samples[at : at + RATE // 5]).max()
        assert before < 0.02 * loud
        assert behind > 0.2 * loud


def open_service(server: ServerProcess, mode: TextAggregationMode) -> ElevenLabsTTSService:
    return ElevenLabsTTSService(
        api_key="any",
        url=f"ws://127.0.0.1:{server.port}",
        sample_rate=RATE,
        text_aggregation_mode=mode,
        stop_frame_timeout_s=PATIENCE_S,
        settings=ElevenLabsTTSService.Settings(voice="alloy", speed=1.0, stability=0.5),
    )


def converse(
    server: ServerProcess,
    scenario: Callable[[Conversation], Awaitable[None]],
    mode: TextAggregationMode = TextAggregationMode.SENTENCE,
) -> None:
    async def run() -> None:
        async with talking(open_service(server, mode)) as conversation:
            await scenario(conversation)

    asyncio.run(run())
    server.await_metric(RUNNING, 0)


@pytest.mark.parametrize("mode", [TextAggregationMode.SENTENCE, TextAggregationMode.TOKEN])
def test_turns_are_spoken_and_their_words_told_in_time(
    server: ServerProcess, mode: TextAggregationMode
) -> None:
    async def scenario(conversation: Conversation) -> None:
        contexts = set()
        for _ in range(2):
            await conversation.say(tokens(TEXT))
            turn = await conversation.turn()
            check_turn(turn)
            contexts.add(turn.context_id)
        assert len(contexts) == 2

    converse(server, scenario, mode)


@pytest.mark.parametrize("mode", [TextAggregationMode.SENTENCE, TextAggregationMode.TOKEN])
def test_after_an_interruption_only_the_new_turn_is_heard(
    server: ServerProcess, mode: TextAggregationMode
) -> None:
    async def scenario(conversation: Conversation) -> None:
        await conversation.say(tokens(f"{TEXT} " * 20))
        interrupted = await conversation.first_audio()
        await conversation.interrupt()
        await conversation.say(tokens(TEXT))
        first = await conversation.first_audio()
        assert first.context_id != interrupted.context_id
        rest = await conversation.turn()
        assert rest.context_id == first.context_id
        assert 2.0 < len(rest.audio) / 2 / RATE < 9.0

    converse(server, scenario, mode)


def test_many_interruptions_leave_no_context_behind(server: ServerProcess) -> None:
    """A server that counted forgotten contexts would refuse the sixth."""

    async def scenario(conversation: Conversation) -> None:
        for _ in range(12):
            await conversation.say(tokens(f"{TEXT} " * 5))
            assert isinstance(await conversation.first_audio(), TTSAudioRawFrame)
            await conversation.interrupt()
        await conversation.say(tokens(TEXT))
        check_turn(await conversation.turn())

    converse(server, scenario)


def test_the_http_service_tells_its_words_too(server: ServerProcess) -> None:
    async def run() -> Turn:
        async with aiohttp.ClientSession() as session:
            service = ElevenLabsHttpTTSService(
                api_key="any",
                aiohttp_session=session,
                base_url=f"http://127.0.0.1:{server.port}",
                sample_rate=RATE,
                stop_frame_timeout_s=PATIENCE_S,
                settings=ElevenLabsHttpTTSService.Settings(voice="alloy"),
            )
            async with talking(service) as conversation:
                await conversation.say(tokens(TEXT))
                return await conversation.turn()

    check_turn(asyncio.run(run()))
