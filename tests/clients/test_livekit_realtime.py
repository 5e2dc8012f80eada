"""LiveKit's agents on its OpenAI realtime model: turns by voice, tools, interruptions, cancels."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

import pytest
from livekit.agents import function_tool
from livekit.plugins.openai import TTS

from tests.clients.livekit_talk import Call, hold
from tests.clients.speech import check_speech
from tests.clients.talking import ENDLESS, PCM_RATE, RUNNING, SENTENCE, Talk, said, talking

pytestmark = [pytest.mark.model, pytest.mark.process, pytest.mark.asr]

QUESTION = "Could you tell me how to get to the museum, please?"
# Most of the silence behind the question.
PAUSE = round(1.8 * PCM_RATE) * 2


@pytest.fixture(scope="module")
def talk() -> Iterator[Talk]:
    with talking(tokens_per_s=100) as talk:
        yield talk


@pytest.fixture(scope="module")
def question() -> bytes:
    """Made beforehand: a client's event loop that computes is one that times out."""
    return said(QUESTION, silence_s=2.0)


@pytest.fixture(autouse=True)
def complaints(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """The library goes on after an event that it cannot make sense of, and logs it."""
    yield
    assert [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR] == []


def test_a_turn_by_voice(talk: Talk, question: bytes) -> None:
    async def scenario(call: Call) -> None:
        speaking = asyncio.create_task(call.speak(question))
        assert "museum" in await call.words_of("user")
        assert "museum" in await call.words_of("assistant")
        await speaking
        check_speech(call.loudspeaker.sound, "pcm", 1.5, 8.0)
        assert await call.ended(1) == ["completed"]
        system = talk.llm.asked()[-1]["messages"][0]
        assert system == {"role": "system", "content": "You show people the way."}

    hold(talk, scenario)


def test_a_tool_turn(talk: Talk) -> None:
    added: list[tuple[int, int]] = []

    @function_tool
    async def add(a: int, b: int) -> str:
        """Adds two numbers."""
        added.append((a, b))
        return str(a + b)

    async def scenario(call: Call) -> None:
        call.session.generate_reply(user_input='call add {"a": 2, "b": 3}')
        executed = await call.told("function_tools_executed")
        assert added == [(2, 3)]
        assert [output.output for output in executed.function_call_outputs] == ["5"]
        assert await call.words_of("assistant") == "It is: 5."
        check_speech(call.loudspeaker.sound, "pcm", 0.4, 3.0)
        (tool,) = talk.llm.asked()[-1]["tools"]
        assert tool["function"]["description"] == "Adds two numbers."

    hold(talk, scenario, tools=[add])


def test_a_voice_interrupts_an_answer(talk: Talk, question: bytes) -> None:
    async def scenario(call: Call) -> None:
        call.session.generate_reply(user_input=ENDLESS)
        await call.loudspeaker.plays.wait()
        speaking = asyncio.create_task(call.speak(question))
        interrupted = (await call.told("conversation_item_added")).item
        while interrupted.role != "assistant":
            interrupted = (await call.told("conversation_item_added")).item
        assert interrupted.interrupted
        truncated = await call.sent("conversation.item.truncated")
        assert truncated["item_id"] == interrupted.id
        assert "museum" in await call.words_of("assistant")
        await speaking
        assert await call.ended(2) == ["cancelled", "completed"]
        heard = talk.llm.asked()[-1]["messages"][-2]
        assert heard["role"] == "assistant"
        assert SENTENCE.startswith(heard["content"][: len(SENTENCE)])
        # Nobody says more than thirty characters a second.
        assert len(heard["content"]) <= truncated["audio_end_ms"] / 1000 * 30

    hold(talk, scenario)


def test_a_cancel_ends_an_answer_and_the_next_one_begins(talk: Talk) -> None:
    async def scenario(call: Call) -> None:
        handle = call.session.generate_reply(user_input=ENDLESS)
        await call.loudspeaker.plays.wait()
        await asyncio.to_thread(talk.server.await_metric, RUNNING, 1)
        await call.session.interrupt()
        await handle
        assert handle.interrupted
        call.session.generate_reply(user_input="say Short.")
        assert (await call.words_of("assistant")).startswith("And so")
        assert await call.words_of("assistant") == "Short."
        assert await call.ended(2) == ["cancelled", "completed"]

    hold(talk, scenario)
    talk.server.await_metric(RUNNING, 0)


def test_a_turn_that_the_client_ends(talk: Talk, question: bytes) -> None:
    async def scenario(call: Call) -> None:
        await call.speak(question[:-PAUSE])
        call.session.commit_user_turn()
        assert "museum" in await call.words_of("assistant")
        assert await call.ended(1) == ["completed"]

    hold(talk, scenario, turn_detection=None)


def test_a_written_answer_is_spoken_by_the_plugins_own_voice(talk: Talk) -> None:
    async def scenario(call: Call) -> None:
        call.session.generate_reply(user_input="say Good morning to you.")
        assert await call.words_of("assistant") == "Good morning to you."
        check_speech(call.loudspeaker.sound, "pcm", 0.8, 3.0)
        assert await call.ended(1) == ["completed"]
        assert "response.output_audio.delta" not in {e["type"] for e in call.server_events}

    voice = TTS(base_url=talk.base_url, api_key="any")
    hold(talk, scenario, voice=voice, modalities=["text"])


def test_an_answer_that_fails_leaves_the_session_in_use(talk: Talk) -> None:
    async def scenario(call: Call) -> None:
        call.session.generate_reply(user_input="say One and two.\nbreak")
        assert (await call.told("error")).error.recoverable
        call.session.generate_reply(user_input="say Still here.")
        while await call.words_of("assistant") != "Still here.":
            pass
        assert await call.ended(2) == ["failed", "completed"]

    hold(talk, scenario)
