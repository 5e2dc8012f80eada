"""A spoken turn with each realtime client, and what an app got of it."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from typing import Any

import agents
import aiohttp
import livekit.agents
from agents.realtime import RealtimeAgent, RealtimeRunner
from livekit.agents import llm
from livekit.plugins.openai.realtime import RealtimeModel
from openai import AsyncOpenAI
from pipecat.adapters.llm.schemas.function_schema import FunctionSchema
from pipecat.frames.frames import (
    DataFrame,
    Frame,
    InputAudioRawFrame,
    LLMFullResponseEndFrame,
    LLMFullResponseStartFrame,
    LLMTextFrame,
    TranscriptionFrame,
    TTSAudioRawFrame,
)
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.services.llm_service import FunctionCallParams

from tests.clients import pipecat_realtime, pipecat_turns
from tests.clients.livekit_talk import frame_of
from tests.clients.sieve import END, Sieve
from tests.clients.talking import PCM_RATE

# What the user said, what the answer says, how it sounds, that its function is called, and that it
# is over.
HEARD, TOLD, SOUND, CALLED, ENDED = "question", "words", "sound", "call", "end"
WEATHER = FunctionSchema("weather", "Tells how the weather is.", {}, [])
Turn = Callable[[Sieve, bytes], Awaitable[set[str]]]


async def openai_turn(sieve: Sieve, pcm: bytes) -> set[str]:
    """What an app in the way of openai-python's own examples sees."""
    kinds = {
        "conversation.item.input_audio_transcription.completed": HEARD,
        "response.output_audio_transcript.delta": TOLD,
        "response.output_audio.delta": SOUND,
        "response.function_call_arguments.done": CALLED,
        "response.done": ENDED,
    }
    hearing = {"transcription": {"model": "whisper-1"}}
    tool = {"type": "function", "name": "weather", "parameters": {"type": "object"}}
    options: Any = {"type": "realtime", "audio": {"input": hearing}, "tools": [tool]}
    got: set[str] = set()
    async with (
        AsyncOpenAI(base_url=sieve.base_url, api_key="any") as client,
        client.realtime.connect(model="gpt-realtime") as connection,
    ):
        await connection.session.update(session=options)
        await connection.input_audio_buffer.append(audio=base64.b64encode(pcm).decode())
        async for event in connection:
            if event.type in kinds:
                got.add(kinds[event.type])
            if event.type == "conversation.item.done" and event.item.id == END:
                break
    return got


async def agents_turn(sieve: Sieve, pcm: bytes) -> set[str]:
    """What openai-agents tells of it, and has of it in its history."""
    url = f"ws://127.0.0.1:{sieve.port}/v1/realtime?model=gpt-realtime"
    got: set[str] = set()

    @agents.function_tool
    async def weather() -> str:
        """Tells how the weather is."""
        got.add(CALLED)
        return "sunny"

    runner = RealtimeRunner(RealtimeAgent(name="guide", tools=[weather]))
    async with await runner.run(model_config={"url": url, "api_key": "any"}) as session:
        await session.send_audio(pcm)
        async for event in session:
            if event.type == "audio":
                got.add(SOUND)
            elif event.type == "agent_end":
                got.add(ENDED)
            elif event.type == "history_updated":
                got |= {_by(item) for item in event.history if _said(item)}
            elif event.type == "raw_model_event" and END in str(event.data):
                break
        await _settle()
    return got


def _by(item: Any) -> str:
    return HEARD if item.role == "user" else TOLD


def _said(item: Any) -> bool:
    return any(getattr(part, "transcript", "") for part in getattr(item, "content", ()))


@livekit.agents.function_tool
async def weather() -> str:
    """Tells how the weather is."""
    return "sunny"


async def livekit_turn(sieve: Sieve, pcm: bytes) -> set[str]:
    """What LiveKit's model has for an agent's session."""
    got: set[str] = set()
    reading: list[asyncio.Task[None]] = []
    over = asyncio.Event()

    def begin(generation: llm.GenerationCreatedEvent) -> None:
        reading.append(asyncio.create_task(_read(generation, got)))

    def hear(transcript: llm.InputTranscriptionCompleted) -> None:
        if transcript.is_final:
            got.add(HEARD)

    def note(event: dict[str, Any]) -> None:
        if event.get("item", {}).get("id") == END:
            over.set()

    async with aiohttp.ClientSession() as http:
        model = RealtimeModel(base_url=sieve.base_url, api_key="any", http_session=http)
        session = model.session()
        await session.update_tools([weather])
        session.on("generation_created", begin)
        session.on("input_audio_transcription_completed", hear)
        session.on("openai_server_event_received", note)
        session.push_audio(frame_of(pcm))
        await over.wait()
        await _settle()
        seen = set(got)
        await session.aclose()
        await asyncio.gather(*reading)
    return seen


async def _read(generation: llm.GenerationCreatedEvent, got: set[str]) -> None:
    await asyncio.gather(_listen(generation, got), _call(generation, got))
    got.add(ENDED)


async def _listen(generation: llm.GenerationCreatedEvent, got: set[str]) -> None:
    async for message in generation.message_stream:
        async for _ in message.text_stream:
            got.add(TOLD)
        async for _ in message.audio_stream:
            got.add(SOUND)


async def _call(generation: llm.GenerationCreatedEvent, got: set[str]) -> None:
    async for _ in generation.function_stream:
        got.add(CALLED)


async def _settle() -> None:
    """Whatever is on its way through queues of this loop arrives."""
    for _ in range(1000):
        await asyncio.sleep(0)


class _Mark(DataFrame):
    """Nothing of the turn comes behind it."""


class _Ear(FrameProcessor):
    """Where the user's words come to an app."""

    def __init__(self, got: set[str]) -> None:
        super().__init__()
        self._got = got

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        if isinstance(frame, TranscriptionFrame):
            self._got.add(HEARD)
        await self.push_frame(frame, direction)


async def pipecat_turn(sieve: Sieve, pcm: bytes) -> set[str]:
    """What Pipecat's service has for a pipeline. Words count where they are of a response."""
    got: set[str] = set()
    over = asyncio.Event()
    has_begun = False
    service = pipecat_realtime.open_service(sieve.base_url, tools=[WEATHER])

    async def weather(call: FunctionCallParams) -> None:
        got.add(CALLED)
        await call.result_callback("sunny")

    service.register_function("weather", weather)

    @service.event_handler("on_conversation_item_updated")  # type: ignore[untyped-decorator]
    async def note(_: Any, item_id: str, item: Any) -> None:
        if item_id == END:
            await _settle()
            over.set()

    async with pipecat_turns.talking(_Ear(got), service) as conversation:
        await conversation.queue(InputAudioRawFrame(pcm, PCM_RATE, 1))
        await over.wait()
        await conversation.queue(_Mark())
        while not isinstance(frame := await conversation.next(), _Mark):
            has_begun |= isinstance(frame, LLMFullResponseStartFrame)
            if isinstance(frame, TTSAudioRawFrame):
                got.add(SOUND)
            elif isinstance(frame, LLMTextFrame) and has_begun:
                got.add(TOLD)
            elif isinstance(frame, LLMFullResponseEndFrame):
                got.add(ENDED)
    return got


CLIENTS: dict[str, Turn] = {
    "openai": openai_turn,
    "openai-agents": agents_turn,
    "LiveKit": livekit_turn,
    "Pipecat": pipecat_turn,
}
