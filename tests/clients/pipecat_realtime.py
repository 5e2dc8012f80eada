"""An app that talks through Pipecat's realtime service: its pipeline, and what is said in it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from pipecat.adapters.llm.schemas.function_schema import FunctionSchema
from pipecat.adapters.llm.schemas.tools_schema import ToolsSchema
from pipecat.frames.frames import (
    LLMFullResponseEndFrame,
    LLMTextFrame,
    TTSAudioRawFrame,
)
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import (
    AssistantTurnStoppedMessage,
    LLMContextAggregatorPair,
    LLMUserAggregatorParams,
    UserTurnMessageAddedMessage,
)
from pipecat.services.llm_service import FunctionCallParams
from pipecat.services.openai.realtime import events
from pipecat.services.openai.realtime.llm import OpenAIRealtimeLLMService
from pipecat.turns.user_turn_strategies import ExternalUserTurnStrategies

from tests.clients.pipecat_turns import RATE, Conversation, talking

ADD = FunctionSchema("add", "Adds.", {"a": {"type": "integer"}, "b": {"type": "integer"}}, ["a"])


@dataclass
class Answer:
    """What the service let through of one answer."""

    text: str = ""
    audio: bytes = b""

    @property
    def audio_s(self) -> float:
        return len(self.audio) / 2 / RATE


@dataclass
class App:
    """``heard`` and ``told``: what its context has of the user and the assistant, as it comes."""

    conversation: Conversation
    context: LLMContext
    heard: asyncio.Queue[str] = field(default_factory=asyncio.Queue)
    told: asyncio.Queue[str] = field(default_factory=asyncio.Queue)

    async def answer(self) -> Answer:
        """What comes until an answer ends."""
        answer = Answer()
        while not isinstance(frame := await self.conversation.next(), LLMFullResponseEndFrame):
            if isinstance(frame, TTSAudioRawFrame):
                answer.audio += frame.audio
            elif isinstance(frame, LLMTextFrame):
                answer.text += frame.text
        return answer


async def add(call: FunctionCallParams) -> None:
    await call.result_callback({"sum": call.arguments["a"] + call.arguments["b"]})


@asynccontextmanager
async def talking_app(
    base_url: str,
    messages: list[Any],
    *,
    turn_detection: Literal[False] | None = None,
    tools: bool = False,
) -> AsyncIterator[App]:
    """Such an app, with what its context begins with.

    ``turn_detection`` False: the app says when its user speaks.
    """
    service = open_service(base_url, turn_detection, tools=[ADD] if tools else [])
    service.register_function("add", add)
    context = LLMContext(messages)
    strategies = ExternalUserTurnStrategies()
    user, assistant = LLMContextAggregatorPair(
        context, user_params=LLMUserAggregatorParams(user_turn_strategies=strategies)
    )
    async with talking(user, service, behind=[assistant]) as conversation:
        app = App(conversation, context)

        @user.event_handler("on_user_turn_message_added")  # type: ignore[untyped-decorator]
        async def hear(_: Any, message: UserTurnMessageAddedMessage) -> None:
            app.heard.put_nowait(message.content)

        @assistant.event_handler("on_assistant_turn_stopped")  # type: ignore[untyped-decorator]
        async def tell(_: Any, message: AssistantTurnStoppedMessage) -> None:
            app.told.put_nowait(message.content)

        yield app


def open_service(
    base_url: str,
    turn_detection: Literal[False] | None = None,
    *,
    tools: Sequence[FunctionSchema] = (),
) -> OpenAIRealtimeLLMService:
    hearing = events.AudioInput(
        transcription=events.InputAudioTranscription(), turn_detection=turn_detection
    )
    audio = events.AudioConfiguration(input=hearing)
    return OpenAIRealtimeLLMService(
        api_key="any",
        base_url=f"{base_url.replace('http', 'ws', 1)}/realtime",
        settings=OpenAIRealtimeLLMService.Settings(
            session_properties=events.SessionProperties(audio=audio, tools=ToolsSchema(list(tools)))
        ),
    )
