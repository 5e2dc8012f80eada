"""openai-python's realtime client against a model that hears, thinks and speaks by itself."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from openai import AsyncOpenAI

from tests.clients.talking import PCM_RATE, audio_ms, microphone, said
from tests.e2e.server_process import ServerProcess, serving
from tests.worker.models.qwen_omni.omni_pipelines import greedy, small_omni
from tests.worker.models.qwen_omni.tiny_omni import write_qwen3

pytestmark = [
    pytest.mark.model,
    pytest.mark.process,
    pytest.mark.client,
    pytest.mark.asr,
    pytest.mark.vllm,
    pytest.mark.filterwarnings("default"),
]

LIMIT_S = 300.0
QUESTION = "Could you tell me how to get to the museum, please?"
TOOL = {
    "type": "function",
    "name": "wait",
    "parameters": {"type": "object", "additionalProperties": False},
}
RUNNING = 'voxloom_engine_requests{pipeline="qwen3-omni",state="running"}'
SHORT, LONG = {"max_output_tokens": 12}, {"max_output_tokens": 600}
# An answer that is to be interrupted may end before: then the next one is.
NUM_TRIES = 10


def write_talkative(folder: Path) -> Path:
    """A small model that may speak for longer than the others."""
    folder.mkdir()
    write_qwen3(folder)
    file = folder / "generation_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"talker_max_new_tokens": 1500}))
    return folder


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """The pipeline that ships, with a small model in the place of its own."""
    root = tmp_path_factory.mktemp("omni")
    pipeline = greedy(small_omni("qwen3-omni", write_talkative(root / "model"), is_live=True))
    file = root / "omni.yaml"
    file.write_text(yaml.safe_dump(msgspec.to_builtins(pipeline)))
    with serving("--talk", str(file), environ={"VOXLOOM_ACCESS_LOG": "false"}) as server:
        yield server


class Call:
    """One session."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    async def until(self, kind: str) -> list[Any]:
        """What comes up to an event of that type."""
        events: list[Any] = []
        while not events or events[-1].type != kind:
            events.append(await self.connection.recv())
            assert kind == "error" or events[-1].type != "error", events[-1]
        return events

    async def write(self, text: str) -> None:
        item = {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": text}],
        }
        await self.connection.conversation.item.create(item=item)

    async def update(self, **session: Any) -> None:
        await self.connection.session.update(session={"type": "realtime"} | session)

    async def speak(self, pcm: bytes) -> None:
        async for piece in microphone(pcm):
            await self.connection.input_audio_buffer.append(audio=piece)

    async def play(self, pcm: bytes) -> None:
        """All of it at once."""
        await self.connection.input_audio_buffer.append(audio=base64.b64encode(pcm).decode())


def hold(
    server: ServerProcess, scenario: Callable[[Call], Awaitable[None]], limit_s: float = LIMIT_S
) -> None:
    async def run() -> None:
        base_url = f"http://127.0.0.1:{server.port}/v1"
        async with (
            AsyncOpenAI(base_url=base_url, api_key="any") as client,
            client.realtime.connect(model="omni") as connection,
        ):
            await scenario(Call(connection))

    asyncio.run(asyncio.wait_for(run(), limit_s))


def check_answer(response: Any, events: list[Any]) -> None:
    """It may say no more than it was allowed to, and has said that aloud."""
    assert (response.status, response.status_details.reason) == (
        "incomplete",
        "max_output_tokens",
    ), response
    assert response.output[0].content[0].transcript
    assert audio_ms(events) > 500


def test_a_turn_by_voice_is_heard_and_answered(server: ServerProcess) -> None:
    async def scenario(call: Call) -> None:
        await call.update(
            **SHORT,
            audio={
                "input": {"transcription": {"model": "whisper-1"}},
                "output": {"voice": "marin"},
            },
        )
        shown = (await call.until("session.updated"))[-1].session
        assert shown.audio.output.voice == "marin"
        speaking = asyncio.create_task(call.speak(said(QUESTION)))
        events = await call.until("response.done")
        kinds = [event.type for event in events]
        await speaking
        turn = ("input_audio_buffer.speech_started", "input_audio_buffer.speech_stopped")
        committed, created = "input_audio_buffer.committed", "response.created"
        order = [kinds.index(kind) for kind in (*turn, committed, created)]
        assert order == sorted(order)
        check_answer(events[-1].response, events)
        completed = "conversation.item.input_audio_transcription.completed"
        if completed not in kinds:
            events += await call.until(completed)
        (words,) = [event.transcript for event in events if event.type == completed]
        assert "museum" in words
        usage = events[kinds.index("response.done")].response.usage
        assert usage.input_token_details.audio_tokens > 20

    hold(server, scenario)


def test_an_answer_beside_the_conversation_hears_what_it_refers_to(server: ServerProcess) -> None:
    async def scenario(call: Call) -> None:
        await call.update(**SHORT, audio={"input": {"turn_detection": None}})
        ids = []
        for seconds in (2, 1):
            await call.play(said(QUESTION)[: 2 * seconds * PCM_RATE])
            await call.connection.input_audio_buffer.commit()
            ids.append((await call.until("conversation.item.done"))[-1].item.id)
        aside: dict[str, Any] = {"conversation": "none", "output_modalities": ["text"]}
        aside |= {"input": [{"type": "item_reference", "id": ids[1]}]}
        await call.connection.response.create(response=aside)
        events = await call.until("response.done")
        response = events[-1].response
        assert response.conversation_id is None
        assert response.output[0].content[0].text
        assert response.usage.input_token_details.audio_tokens == 10
        assert audio_ms(events) == 0

    hold(server, scenario)


def test_a_session_that_outgrows_the_model_goes_on_without_its_oldest_sounds(
    server: ServerProcess,
) -> None:
    async def scenario(call: Call) -> None:
        await call.update(output_modalities=["text"], audio={"input": {"turn_detection": None}})
        counts = []
        for _ in range(40):
            await call.play(said(QUESTION)[: 2 * 3 * PCM_RATE])
            await call.connection.input_audio_buffer.commit()
            await call.connection.response.create(response=SHORT)
            response = (await call.until("response.done"))[-1].response
            assert response.status in ("completed", "incomplete"), response
            counts.append(response.usage.input_token_details.audio_tokens)
        # Thirty for each turn of which the model was told.
        assert counts[:3] == [30, 60, 90]
        assert {count % 30 for count in counts} == {0}
        assert 30 * 5 < counts[-1] < 30 * 25
        await call.update(truncation="disabled")
        await call.connection.response.create(response=SHORT)
        response = (await call.until("response.done"))[-1].response
        assert response.status_details.error.code == "context_length_exceeded"
        await call.update(truncation="auto")
        await call.connection.response.create(response=SHORT)
        assert (await call.until("response.done"))[-1].response.status != "failed"

    hold(server, scenario, 3 * LIMIT_S)


def test_a_turn_in_writing_is_answered_by_voice(server: ServerProcess) -> None:
    async def scenario(call: Call) -> None:
        await call.update(**SHORT, instructions="Answer.")
        await call.write("Hello")
        await call.connection.response.create()
        events = await call.until("response.done")
        check_answer(events[-1].response, events)
        await call.write("And now?")
        await call.connection.response.create()
        check_answer((events := await call.until("response.done"))[-1].response, events)
        # From the instructions alone.
        await call.connection.response.create(response={"input": []})
        check_answer((events := await call.until("response.done"))[-1].response, events)

    hold(server, scenario)


def test_a_voice_interrupts_an_answer(server: ServerProcess) -> None:
    async def scenario(call: Call) -> None:
        speech = said(QUESTION, silence_s=0.0)[: PCM_RATE * 2]
        for _ in range(NUM_TRIES):
            await call.update(audio={"input": {"turn_detection": {"type": "server_vad"}}})
            await call.write("Hello")
            await call.connection.response.create(response=LONG)
            await call.until("response.output_audio.delta")
            await call.play(speech)
            response = (await call.until("response.done"))[-1].response
            if response.status == "cancelled":
                break
            await call.connection.input_audio_buffer.clear()
            await call.connection.conversation.item.delete(item_id=response.output[0].id)
        assert response.status_details.reason == "turn_detected"
        item_id = response.output[0].id
        await call.connection.conversation.item.truncate(
            item_id=item_id, content_index=0, audio_end_ms=1
        )
        await call.until("conversation.item.truncated")
        await call.connection.conversation.item.retrieve(item_id=item_id)
        shown = (await call.until("conversation.item.retrieved"))[-1].item
        assert shown.content[0].transcript == ""
        # The one who interrupted falls silent, and is answered.
        await call.update(**SHORT)
        await call.play(bytes(2 * PCM_RATE * 2))
        check_answer((events := await call.until("response.done"))[-1].response, events)

    hold(server, scenario)
    server.await_metric(RUNNING, 0)


def test_a_cancel_ends_an_answer_and_the_next_one_begins(server: ServerProcess) -> None:
    async def scenario(call: Call) -> None:
        await call.write("Hello")
        await call.connection.response.create(response=LONG)
        await call.connection.response.cancel()
        response = (await call.until("response.done"))[-1].response
        assert (response.status, response.status_details.reason) == (
            "cancelled",
            "client_cancelled",
        )
        await call.connection.response.create(response=SHORT)
        check_answer((events := await call.until("response.done"))[-1].response, events)

    hold(server, scenario)
    server.await_metric(RUNNING, 0)


def test_a_tool_is_called_without_a_sound_and_its_result_answered(server: ServerProcess) -> None:
    async def scenario(call: Call) -> None:
        await call.update(
            tools=[TOOL],
            audio={"input": {"turn_detection": None}},
        )
        await call.play(said(QUESTION, silence_s=0.2))
        await call.connection.input_audio_buffer.commit()
        await call.connection.response.create(response={"tool_choice": "required"})
        events = await call.until("response.done")
        assert events[-1].response.status == "completed", events[-1].response
        (called,) = events[-1].response.output
        assert (called.type, called.name) == ("function_call", "wait")
        assert json.loads(called.arguments) == {}
        assert audio_ms(events) == 0
        result = {"type": "function_call_output", "call_id": called.call_id, "output": "Done."}
        await call.connection.conversation.item.create(item=result)
        await call.connection.response.create(response=SHORT | {"tool_choice": "none"})
        check_answer((events := await call.until("response.done"))[-1].response, events)

    hold(server, scenario)
