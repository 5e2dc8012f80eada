"""Pipecat's OpenAI realtime service, with nothing changed but its address."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from pipecat.frames.frames import (
    FunctionCallResultFrame,
    InterruptionFrame,
    LLMRunFrame,
    ProposedUserStartedSpeakingFrame,
    ProposedUserStoppedSpeakingFrame,
    TTSStoppedFrame,
    UserStartedSpeakingFrame,
    UserStoppedSpeakingFrame,
)
from pipecat.services.openai.stt import OpenAIRealtimeSTTService

from tests.clients.pipecat_hearing import check_hearing, local_turns
from tests.clients.pipecat_realtime import App, talking_app
from tests.clients.talking import ENDLESS, RUNNING, SENTENCE, Talk, said, talking

pytestmark = [pytest.mark.model, pytest.mark.process, pytest.mark.asr]

QUESTION = "Could you tell me how to get to the museum, please?"
GREETING = "say Good morning to you."
THINKING = "say One moment, please. I am thinking.\nhang"


@pytest.fixture(scope="module")
def talk() -> Iterator[Talk]:
    with talking(tokens_per_s=100) as talk:
        yield talk


def hold(
    talk: Talk, first: str, scenario: Callable[[App], Awaitable[None]], **options: Any
) -> None:
    """An app that begins by having ``first`` answered."""

    async def run() -> None:
        message = {"role": "user", "content": first}
        async with talking_app(talk.base_url, [message], **options) as app:
            await app.conversation.queue(LLMRunFrame())
            await scenario(app)

    asyncio.run(run())
    talk.server.await_metric(RUNNING, 0)


async def hear_greeting(app: App) -> None:
    answer = await app.answer()
    assert answer.text == "Good morning to you."
    assert 0.8 < answer.audio_s < 3.0


def test_a_turn_by_voice(talk: Talk) -> None:
    async def scenario(app: App) -> None:
        await hear_greeting(app)
        speaking = asyncio.create_task(app.conversation.speak(said(QUESTION)))
        await app.conversation.until(UserStartedSpeakingFrame)
        await app.conversation.until(UserStoppedSpeakingFrame)
        answer = await app.answer()
        await speaking
        assert "museum" in answer.text
        assert answer.audio_s > 1.5
        assert "museum" in await app.heard.get()
        assert [await app.told.get() for _ in range(2)] == ["Good morning to you.", answer.text]

    hold(talk, GREETING, scenario)


def test_a_tool_turn(talk: Talk) -> None:
    async def scenario(app: App) -> None:
        result = await app.conversation.until(FunctionCallResultFrame)
        assert (result.arguments, result.result) == ({"a": 2, "b": 3}, {"sum": 5})
        # The answer that calls may end before its function does, or behind it.
        while not (answer := await app.answer()).text:
            pass
        assert answer.text == 'It is: {"sum": 5}.'
        assert answer.audio_s > 0.5
        calls = talk.llm.asked()[-1]["messages"][-2:]
        assert [message["role"] for message in calls] == ["assistant", "tool"]

    hold(talk, 'call add {"a": 2, "b": 3}', scenario, tools=True)


def test_a_voice_interrupts_an_answer(talk: Talk) -> None:
    """What it had not said yet is not in the conversation."""

    async def scenario(app: App) -> None:
        await app.conversation.first_audio()
        speaking = asyncio.create_task(app.conversation.speak(said(QUESTION)))
        await app.conversation.until(InterruptionFrame)
        await app.conversation.until(UserStoppedSpeakingFrame)
        answer = await app.answer()
        await speaking
        assert "museum" in answer.text
        _, cut, question = talk.llm.asked()[-1]["messages"]
        assert SENTENCE.startswith(cut["content"][:20])
        assert 0 < len(cut["content"]) < len(ENDLESS) / 2
        assert "museum" in question["content"]

    hold(talk, ENDLESS, scenario)


def test_an_app_says_when_its_user_speaks(talk: Talk) -> None:
    async def scenario(app: App) -> None:
        await hear_greeting(app)
        for _ in range(2):
            await app.conversation.queue(ProposedUserStartedSpeakingFrame())
            await app.conversation.until(UserStartedSpeakingFrame)
            await app.conversation.speak(said(QUESTION, silence_s=0.2))
            await app.conversation.queue(ProposedUserStoppedSpeakingFrame())
            answer = await app.answer()
            assert "museum" in answer.text
            assert "museum" in await app.heard.get()

    hold(talk, GREETING, scenario, turn_detection=False)


def test_an_app_cancels_an_answer(talk: Talk) -> None:
    async def scenario(app: App) -> None:
        await app.conversation.first_audio()
        await asyncio.to_thread(talk.server.await_metric, RUNNING, 1)
        await app.conversation.interrupt()
        await asyncio.to_thread(talk.server.await_metric, RUNNING, 0)
        await app.conversation.until(TTSStoppedFrame)

    hold(talk, THINKING, scenario, turn_detection=False)


def ear(talk: Talk, turn_detection: Any) -> OpenAIRealtimeSTTService:
    return OpenAIRealtimeSTTService(
        api_key="any",
        base_url=f"{talk.base_url.replace('http', 'ws', 1)}/realtime",
        turn_detection=turn_detection,
        settings=OpenAIRealtimeSTTService.Settings(model="gpt-transcribe"),
    )


def test_an_ear_that_finds_turns_by_itself(talk: Talk) -> None:
    turn_detection = {"type": "server_vad", "silence_duration_ms": 500}
    asyncio.run(check_hearing(ear(talk, turn_detection)))


def test_an_ear_that_is_told_of_turns(talk: Talk) -> None:
    asyncio.run(check_hearing(local_turns(), ear(talk, False)))
