"""openai-python's realtime client: turns by voice, tools, interruptions, and what goes wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from openai import AsyncOpenAI

from tests.clients.talking import (
    ENDLESS,
    RUNNING,
    SENTENCE,
    Talk,
    audio_ms,
    microphone,
    said,
    talking,
)

pytestmark = [pytest.mark.model, pytest.mark.process, pytest.mark.asr]

LIMIT_S = 300.0
QUESTION = "Could you tell me how to get to the museum, please?"
# How much of an answer was heard before it was interrupted.
HEARD_MS = 1000
TOOL = {"type": "function", "name": "add", "parameters": {"type": "object", "properties": {}}}


@pytest.fixture(scope="module")
def talk() -> Iterator[Talk]:
    with talking(tokens_per_s=100) as talk:
        yield talk


class Call:
    """One session: everything that came, and the next of a kind."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.events: list[Any] = []

    async def until(self, kind: str) -> list[Any]:
        """What comes up to an event of that type."""
        first = len(self.events)
        while True:
            event = await self.connection.recv()
            self.events.append(event)
            if event.type == kind:
                return self.events[first:]

    async def write(self, text: str) -> None:
        part = {"type": "input_text", "text": text}
        item = {"type": "message", "role": "user", "content": [part]}
        await self.connection.conversation.item.create(item=item)

    async def speak(self, pcm: bytes) -> None:
        async for piece in microphone(pcm):
            await self.connection.input_audio_buffer.append(audio=piece)


def hold(talk: Talk, scenario: Callable[[Call], Awaitable[None]], **extra: Any) -> None:
    async def run() -> None:
        async with (
            AsyncOpenAI(base_url=talk.base_url, api_key="any") as client,
            client.realtime.connect(model="gpt-realtime", extra_query=extra) as connection,
        ):
            await scenario(Call(connection))

    asyncio.run(asyncio.wait_for(run(), LIMIT_S))


def kinds(events: list[Any]) -> list[str]:
    return [event.type for event in events]


def test_a_turn_by_voice(talk: Talk) -> None:
    async def scenario(call: Call) -> None:
        await call.until("session.created")
        session = {"type": "realtime", "audio": {"input": {"transcription": {"model": "m"}}}}
        await call.connection.session.update(session=session)
        speaking = asyncio.create_task(call.speak(said(QUESTION)))
        events = await call.until("response.done")
        await speaking
        words = [e.transcript for e in events if e.type.endswith("transcription.completed")]
        assert "museum" in words[0]
        said_back = [e for e in events if e.type == "response.output_audio_transcript.done"]
        assert "museum" in said_back[0].transcript
        assert audio_ms(events) > 1500
        assert events[-1].response.status == "completed"

    hold(talk, scenario)


def test_a_turn_in_writing_answered_by_voice(talk: Talk) -> None:
    async def scenario(call: Call) -> None:
        await call.write("say Good morning.")
        await call.connection.response.create()
        events = await call.until("response.done")
        assert audio_ms(events) > 500
        assert kinds(events)[-6:] == [
            "response.output_audio.done",
            "response.output_audio_transcript.done",
            "response.content_part.done",
            "conversation.item.done",
            "response.output_item.done",
            "response.done",
        ]

    hold(talk, scenario)


def test_an_answer_from_the_instructions_alone(talk: Talk) -> None:
    async def scenario(call: Call) -> None:
        await call.write("say What was said before.")
        alone = {"input": [], "instructions": "say Good morning."}
        await call.connection.response.create(response=alone)
        events = await call.until("response.done")
        assert audio_ms(events) > 500
        assert events[-1].response.output[0].content[0].transcript == "Good morning."
        await call.connection.response.create(response={"input": []})
        error = (await call.until("error"))[-1].error
        assert (error.code, error.param) == ("empty_input", "response.input")

    hold(talk, scenario)


def test_a_tool_turn(talk: Talk) -> None:
    async def scenario(call: Call) -> None:
        await call.connection.session.update(session={"type": "realtime", "tools": [TOOL]})
        await call.write('call add {"a": 2}')
        await call.connection.response.create()
        events = await call.until("response.done")
        (done,) = [e for e in events if e.type == "response.function_call_arguments.done"]
        assert (done.name, done.arguments) == ("add", '{"a": 2}')
        result = {"type": "function_call_output", "call_id": done.call_id, "output": "5"}
        await call.connection.conversation.item.create(item=result)
        await call.connection.response.create()
        events = await call.until("response.done")
        assert events[-1].response.output[0].content[0].transcript == "It is: 5."

    hold(talk, scenario)


def test_a_voice_interrupts_an_answer(talk: Talk) -> None:
    async def scenario(call: Call) -> None:
        await call.write(ENDLESS)
        await call.connection.response.create()
        while audio_ms(call.events) < HEARD_MS:
            await call.until("response.output_audio.delta")
        speaking = asyncio.create_task(call.speak(said(QUESTION)))
        events = await call.until("response.done")
        assert "input_audio_buffer.speech_started" in kinds(events)
        assert events[-1].response.status == "cancelled"
        assert events[-1].response.status_details.reason == "turn_detected"
        item_id = events[-1].response.output[0].id
        await call.connection.conversation.item.truncate(
            item_id=item_id, content_index=0, audio_end_ms=HEARD_MS
        )
        await call.until("conversation.item.truncated")
        await call.connection.conversation.item.retrieve(item_id=item_id)
        shown = (await call.until("conversation.item.retrieved"))[-1]
        heard = shown.item.content[0].transcript
        assert 0 < len(heard) < 40
        assert SENTENCE.startswith(heard[:10])
        await call.until("response.done")
        await speaking
        assert talk.llm.asked()[-1]["messages"][1] == {"role": "assistant", "content": heard}

    hold(talk, scenario)


def test_a_cancel_ends_an_answer_and_the_next_one_begins(talk: Talk) -> None:
    async def scenario(call: Call) -> None:
        await call.write(ENDLESS)
        await call.connection.response.create()
        await call.until("response.output_audio.delta")
        await asyncio.to_thread(talk.server.await_metric, RUNNING, 1)
        await call.connection.response.cancel()
        events = await call.until("response.done")
        assert events[-1].response.status == "cancelled"
        await call.write("say Short.")
        await call.connection.response.create()
        events = await call.until("response.done")
        assert events[-1].response.output[0].content[0].transcript == "Short."

    hold(talk, scenario)
    talk.server.await_metric(RUNNING, 0)


def test_a_turn_that_the_client_ends(talk: Talk) -> None:
    async def scenario(call: Call) -> None:
        detection = {"audio": {"input": {"turn_detection": None}}}
        await call.connection.session.update(session={"type": "realtime"} | detection)
        await call.speak(said(QUESTION, silence_s=0.2))
        await call.connection.input_audio_buffer.commit()
        await call.connection.response.create(response={"output_modalities": ["text"]})
        events = await call.until("response.done")
        assert "museum" in events[-1].response.output[0].content[0].text
        assert audio_ms(events) == 0

    hold(talk, scenario)


def test_a_session_that_only_listens(talk: Talk) -> None:
    async def scenario(call: Call) -> None:
        created = (await call.until("session.created"))[-1]
        assert created.session.type == "transcription"
        speaking = asyncio.create_task(call.speak(said(QUESTION)))
        kind = "conversation.item.input_audio_transcription.completed"
        events = await call.until(kind)
        await speaking
        assert "museum" in events[-1].transcript
        assert not [name for name in kinds(events) if name.startswith("response.")]

    hold(talk, scenario, intent="transcription")


def test_mistakes_are_answered_and_harm_nothing(talk: Talk) -> None:
    async def scenario(call: Call) -> None:
        await call.until("session.created")
        await call.connection.send({"type": "no.such.event", "event_id": "mine"})
        error = (await call.until("error"))[-1].error
        assert (error.code, error.event_id) == ("invalid_value", "mine")
        await call.connection.response.cancel()
        assert (await call.until("error"))[-1].error.code == "response_cancel_not_active"
        await call.write("status 429")
        await call.connection.response.create()
        done = (await call.until("response.done"))[-1].response
        assert (done.status, done.status_details.error.code) == ("failed", "unavailable")
        await call.write("say Still here.")
        await call.connection.response.create()
        done = (await call.until("response.done"))[-1].response
        assert done.output[0].content[0].transcript == "Still here."

    hold(talk, scenario)


def test_a_browsers_key_opens_a_session(talk: Talk) -> None:
    async def run() -> None:
        async with AsyncOpenAI(base_url=talk.base_url, api_key="any") as owner:
            secret = await owner.realtime.client_secrets.create(
                session={"type": "realtime", "instructions": "Be brief."}
            )
        async with (
            AsyncOpenAI(base_url=talk.base_url, api_key=secret.value) as client,
            client.realtime.connect(model="m") as connection,
        ):
            created = await Call(connection).until("session.created")
            assert created[-1].session.instructions == "Be brief."

    asyncio.run(asyncio.wait_for(run(), LIMIT_S))
