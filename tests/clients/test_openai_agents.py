"""openai-agents' realtime sessions: turns by voice, tools, interruptions and cancels."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import numpy as np
import pytest
import soxr
from agents import function_tool
from agents.realtime import (
    RealtimeAgent,
    RealtimeModelConfig,
    RealtimeModelSendRawMessage,
    RealtimeRunner,
    RealtimeSession,
)

from server.audio.g711 import G711Law, G711Writer
from tests.clients.speech import check_speech
from tests.clients.talking import ENDLESS, RUNNING, SENTENCE, Talk, pieces, said, talking
from tests.spoken import RATE, spoken

pytestmark = [pytest.mark.model, pytest.mark.process, pytest.mark.asr]

LIMIT_S = 300.0
TELEPHONE_RATE = 8000
QUESTION = "Could you tell me how to get to the museum, please?"
INSTRUCTIONS = "You show people the way."
# Its own default is "semantic_vad", with which the server ends answers that are interrupted.
OWN_CANCEL = {"type": "server_vad", "interrupt_response": False}


@pytest.fixture(scope="module")
def talk() -> Iterator[Talk]:
    with talking(tokens_per_s=100) as talk:
        yield talk


@pytest.fixture(scope="module")
def question() -> bytes:
    """Made beforehand: a client's event loop that computes is one that times out."""
    return said(QUESTION, silence_s=2.0)


class Call:
    """One session: everything that came, and the next of a kind."""

    def __init__(self, session: RealtimeSession) -> None:
        self.session = session
        self.events: list[Any] = []
        self._stream = aiter(session)

    async def until(self, kind: str) -> list[Any]:
        """What comes up to an event of that type, the library's or the server's."""
        first = len(self.events)
        while True:
            event = await anext(self._stream)
            assert event.type != "error", event.error
            self.events.append(event)
            if kind in (event.type, _server_event(event).get("type")):
                return self.events[first:]

    async def until_answered(self) -> list[Any]:
        """What comes up to the end of a spoken answer; that of a tool call is none."""
        first = len(self.events)
        while not audio_of(self.events[first:]):
            await self.until("agent_end")
        return self.events[first:]

    async def speak(self, pcm: bytes) -> None:
        async for piece in pieces(pcm):
            await self.session.send_audio(piece)

    def said_by(self, role: str) -> list[str]:
        """What the library says that they said."""
        histories = [event.history for event in self.events if event.type == "history_updated"]
        messages = [item for item in histories[-1] if item.type == "message"]
        parts = [part for item in messages if item.role == role for part in item.content]
        said: list[Any] = [getattr(part, "transcript", None) or part.text for part in parts]
        return said


def _server_event(event: Any) -> dict[str, Any]:
    """The server's own event within one of the library's."""
    is_servers = event.type == "raw_model_event" and event.data.type == "raw_server_event"
    data: dict[str, Any] = event.data.data if is_servers else {}
    return data


def audio_of(events: list[Any]) -> bytes:
    return b"".join(event.audio.data for event in events if event.type == "audio")


def statuses(call: Call) -> list[str]:
    """How the answers so far have ended."""
    events = map(_server_event, call.events)
    return [e["response"]["status"] for e in events if e.get("type") == "response.done"]


def hold(
    talk: Talk,
    scenario: Callable[[Call], Awaitable[None]],
    *,
    tools: tuple[Any, ...] = (),
    handoffs: tuple[Any, ...] = (),
    **settings: Any,
) -> None:
    """Let an agent talk with ``scenario``; ``settings`` are the model's."""
    config: Any = RealtimeModelConfig(
        url=f"ws://127.0.0.1:{talk.server.port}/v1/realtime?model=gpt-realtime",
        api_key="any",
        initial_model_settings=settings,  # type: ignore[typeddict-item]
    )

    async def run() -> None:
        agent: Any = RealtimeAgent(
            name="guide", instructions=INSTRUCTIONS, tools=list(tools), handoffs=list(handoffs)
        )
        async with await RealtimeRunner(agent).run(model_config=config) as session:
            await scenario(Call(session))

    asyncio.run(asyncio.wait_for(run(), LIMIT_S))


def test_a_turn_by_voice(talk: Talk, question: bytes) -> None:
    async def scenario(call: Call) -> None:
        speaking = asyncio.create_task(call.speak(question))
        events = await call.until_answered()
        await speaking
        assert "museum" in call.said_by("user")[0]
        assert "museum" in call.said_by("assistant")[0]
        check_speech(audio_of(events), "pcm", 1.5, 8.0)
        kinds = [event.type for event in events]
        assert kinds.index("agent_start") < kinds.index("audio") < kinds.index("audio_end")
        assert talk.llm.asked()[-1]["messages"][0] == {"role": "system", "content": INSTRUCTIONS}

    hold(talk, scenario)


def test_a_tool_turn(talk: Talk) -> None:
    added: list[tuple[int, int]] = []

    @function_tool
    def add(a: int, b: int) -> str:
        """Adds two numbers."""
        added.append((a, b))
        return str(a + b)

    async def scenario(call: Call) -> None:
        await call.session.send_message('call add {"a": 2, "b": 3}')
        events = await call.until_answered()
        assert added == [(2, 3)]
        (end,) = [event for event in events if event.type == "tool_end"]
        assert end.output == "5"
        assert call.said_by("assistant") == ["It is: 5."]
        check_speech(audio_of(events), "pcm", 0.4, 3.0)
        (tool,) = talk.llm.asked()[-1]["tools"]
        assert tool["function"]["description"] == "Adds two numbers."

    hold(talk, scenario, tools=(add,))


def test_an_agent_hands_a_conversation_over(talk: Talk) -> None:
    helper: Any = RealtimeAgent(name="helper", instructions="You sell tickets.")

    async def scenario(call: Call) -> None:
        await call.session.send_message("say Hello.")
        await call.until_answered()
        await call.session.send_message("call transfer_to_helper")
        events = await call.until_answered()
        (handoff,) = [event for event in events if event.type == "handoff"]
        assert handoff.to_agent is helper
        await call.session.send_message("say Two tickets.")
        await call.until_answered()
        assert call.said_by("assistant")[-1] == "Two tickets."
        system = talk.llm.asked()[-1]["messages"][0]
        assert system == {"role": "system", "content": "You sell tickets."}

    hold(talk, scenario, handoffs=(helper,))


def test_a_turn_by_telephone_that_the_caller_ends(talk: Talk) -> None:
    """G.711 both ways; with ``turn_detection`` null the client commits and asks for an answer."""
    speech = soxr.resample(spoken(QUESTION), RATE, TELEPHONE_RATE)
    codes = G711Writer(G711Law.ULAW).write(np.round(speech * 32767).astype(np.int16))

    async def scenario(call: Call) -> None:
        await call.session.send_audio(codes, commit=True)
        ask: Any = {"type": "response.create"}
        await call.session.model.send_event(RealtimeModelSendRawMessage(message=ask))
        events = await call.until_answered()
        assert "museum" in call.said_by("user")[0]
        assert "museum" in call.said_by("assistant")[0]
        assert 1.5 < len(audio_of(events)) / TELEPHONE_RATE < 8.0

    hold(
        talk,
        scenario,
        turn_detection=None,
        input_audio_format="g711_ulaw",
        output_audio_format="g711_ulaw",
    )


def test_a_voice_interrupts_an_answer(talk: Talk, question: bytes) -> None:
    async def scenario(call: Call) -> None:
        await call.session.send_message(ENDLESS)
        await call.until("audio")
        speaking = asyncio.create_task(call.speak(question))
        events = await call.until("audio_interrupted")
        item_id = events[-1].item_id
        truncated = _server_event((await call.until("conversation.item.truncated"))[-1])
        assert truncated["item_id"] == item_id
        shown = _server_event((await call.until("conversation.item.retrieved"))[-1])["item"]
        heard = shown["content"][0]["transcript"]
        assert SENTENCE.startswith(heard[: len(SENTENCE)])
        # Nobody says more than thirty characters a second.
        assert len(heard) <= truncated["audio_end_ms"] / 1000 * 30
        await call.until_answered()
        await speaking
        assert statuses(call) == ["cancelled", "completed"]
        assert "museum" in call.said_by("assistant")[-1]
        said_so_far = talk.llm.asked()[-1]["messages"]
        assert said_so_far[2] == {"role": "assistant", "content": heard}

    hold(talk, scenario)


def test_a_cancel_ends_an_answer_and_the_next_one_begins(talk: Talk) -> None:
    async def scenario(call: Call) -> None:
        await call.session.send_message(ENDLESS)
        await call.until("audio")
        await asyncio.to_thread(talk.server.await_metric, RUNNING, 1)
        await call.session.interrupt()
        await call.until("audio_interrupted")
        await call.session.send_message("say Short.")
        await call.until("agent_end")
        await call.until("agent_end")
        assert statuses(call) == ["cancelled", "completed"]
        assert call.said_by("assistant")[-1] == "Short."

    hold(talk, scenario, turn_detection=OWN_CANCEL)
    talk.server.await_metric(RUNNING, 0)


def test_an_answer_that_fails_leaves_the_session_in_use(talk: Talk) -> None:
    async def scenario(call: Call) -> None:
        await call.session.send_message("say One and two.\nbreak")
        await call.until("agent_end")
        await call.session.send_message("say Still here.")
        await call.until("agent_end")
        assert statuses(call) == ["failed", "completed"]
        assert call.said_by("assistant")[-1] == "Still here."

    hold(talk, scenario)
