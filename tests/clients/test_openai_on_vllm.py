"""openai-python against a cascade whose language model runs on vLLM: everything is one engine's."""

from __future__ import annotations

import asyncio
import base64
import io
import wave
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
import yaml
from openai import AsyncOpenAI, BadRequestError, OpenAI

from engine.pipeline import load_pipeline
from tests.clients.talking import PCM_RATE, audio_ms, microphone, said
from tests.e2e.server_process import ServerProcess, serving
from tests.worker.models.thinker.tiny_chat import write_tiny_chat

pytestmark = [
    pytest.mark.model,
    pytest.mark.process,
    pytest.mark.asr,
    pytest.mark.vllm,
    pytest.mark.filterwarnings("default"),
]

LETTERS = "abcdefghijklmnopqrstuvwxyz "
QUESTION = "Could you tell me how to get to the museum, please?"
TOOL: Any = {
    "type": "function",
    "function": {"name": "wait", "parameters": {"type": "object", "additionalProperties": False}},
}
LIMIT_S = 300.0
MAX_MODEL_LEN, NUM_ANSWERED = 512, 20


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """The pipeline that ships, with a small model in the place of its own."""
    folder = tmp_path_factory.mktemp("cascade")
    checkpoint = str(write_tiny_chat(folder / "model", LETTERS))
    pipeline: dict[str, Any] = msgspec.to_builtins(load_pipeline("cascade-vllm"))
    (think,) = [stage for stage in pipeline["stages"] if stage["name"] == "think"]
    think["llm"] |= {
        "checkpoint": checkpoint,
        "tokenizer": checkpoint,
        "dtype": "float32",
        "max_model_len": MAX_MODEL_LEN,
        "max_num_seqs": 4,
        "block_size": 32,
        "num_kv_blocks": 100,
        "kv_cache_memory_mb": 64,
        "enforce_eager": True,
    }
    think["options"] |= {"temperature": 0.0, "max_tokens": 60}
    file = folder / "cascade.yaml"
    file.write_text(yaml.safe_dump(pipeline))
    with serving(
        *("--talk", str(file), "--transcribe", "off"), environ={"VOXLOOM_ACCESS_LOG": "false"}
    ) as server:
        yield server


def base_url(server: ServerProcess) -> str:
    return f"http://127.0.0.1:{server.port}/v1"


def test_a_spoken_question_is_answered_in_words_and_sound(server: ServerProcess) -> None:
    file = io.BytesIO()
    with wave.open(file, "wb") as recording:
        recording.setparams((1, 2, PCM_RATE, 0, "NONE", ""))
        recording.writeframes(said(QUESTION))
    data = base64.b64encode(file.getvalue()).decode()
    question: Any = [{"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}]
    with OpenAI(base_url=base_url(server), api_key="any", timeout=LIMIT_S) as client:
        answer = client.chat.completions.create(
            model="cascade",
            messages=[{"role": "user", "content": question}],
            modalities=["text", "audio"],
            audio={"voice": "alloy", "format": "wav"},
        )
        audio, usage = answer.choices[0].message.audio, answer.usage
        assert audio is not None
        assert usage is not None
        assert len(audio.transcript) > 10
        assert set(audio.transcript) <= set(LETTERS)
        with wave.open(io.BytesIO(base64.b64decode(audio.data))) as answered:
            assert answered.getnframes() > PCM_RATE
        assert usage.prompt_tokens_details is not None
        # A byte is a token of this model: its prompt held the question's words.
        assert (usage.prompt_tokens_details.model_dump()["text_tokens"]) > len(QUESTION)
        called = client.chat.completions.create(
            model="cascade",
            messages=[{"role": "user", "content": "Wait."}],
            tools=[TOOL],
            tool_choice="required",
        )
        (call,) = called.choices[0].message.tool_calls or []
        assert call.type == "function"
        assert (call.function.name, called.choices[0].finish_reason) == ("wait", "tool_calls")


def test_a_turn_by_voice_is_answered_by_voice(server: ServerProcess) -> None:
    async def scenario() -> None:
        async with (
            AsyncOpenAI(base_url=base_url(server), api_key="any") as client,
            client.realtime.connect(model="cascade") as connection,
        ):

            async def speak() -> None:
                async for piece in microphone(said(QUESTION)):
                    await connection.input_audio_buffer.append(audio=piece)

            speaking = asyncio.create_task(speak())
            events: list[Any] = []
            while not events or events[-1].type != "response.done":
                events.append(await connection.recv())
                assert events[-1].type != "error", events[-1]
            await speaking
            response = events[-1].response
            # It says letters until it may say no more.
            assert response.status == "incomplete"
            assert response.status_details.reason == "max_output_tokens"
            assert set(response.output[0].content[0].transcript) <= set(LETTERS)
            assert audio_ms(events) > 1000

    asyncio.run(asyncio.wait_for(scenario(), LIMIT_S))


class Written:
    """A session whose turns are written, and whose answers are text."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    async def update(self, **session: Any) -> None:
        await self.connection.session.update(session={"type": "realtime"} | session)

    async def until(self, kind: str) -> Any:
        while (event := await self.connection.recv()).type != kind:
            assert event.type != "error", event
        return event

    async def write(self, text: str) -> str:
        """The id of the new item."""
        part = {"type": "input_text", "text": text}
        item = {"type": "message", "role": "user", "content": [part]}
        await self.connection.conversation.item.create(item=item)
        return str((await self.until("conversation.item.done")).item.id)

    async def answered(self) -> Any:
        await self.connection.response.create()
        return (await self.until("response.done")).response

    async def refused(self) -> str:
        """Why the answer failed."""
        response = await self.answered()
        assert response.status == "failed"
        assert response.status_details.error.code == "context_length_exceeded"
        return str(response.status_details.error.message)


def test_a_session_that_outgrows_the_model_goes_on(server: ServerProcess) -> None:
    async def talk(call: Written) -> None:
        wanted = {"output_modalities": ["text"], "max_output_tokens": NUM_ANSWERED}
        await call.update(**wanted, instructions="Be brief.")
        shown = (await call.until("session.updated")).session
        assert shown.truncation == "auto"
        first = await call.write(QUESTION)
        lengths = []
        for number in range(40):
            if number:
                await call.write(f"{number}: {QUESTION}")
            response = await call.answered()
            assert response.status_details.reason == "max_output_tokens", response
            assert len(response.output[0].content[0].text) > 10
            lengths.append(response.usage.input_tokens)
        # Room is left for an answer, and no more than an exchange takes is left unused.
        assert max(lengths) <= MAX_MODEL_LEN - NUM_ANSWERED
        assert min(lengths[10:]) > MAX_MODEL_LEN - NUM_ANSWERED - 200
        # What the model was not told is in the conversation all the same.
        await call.connection.conversation.item.retrieve(item_id=first)
        assert (await call.until("conversation.item.retrieved")).item.content[0].text == QUESTION

        await call.update(truncation="disabled")
        await call.until("session.updated")
        await call.write("And now?")
        assert f"at most {MAX_MODEL_LEN - 1}" in await call.refused()
        ratio = {"type": "retention_ratio", "retention_ratio": 0.5}
        await call.update(truncation=ratio | {"token_limits": {"post_instructions": 300}})
        await call.until("session.updated")
        assert (await call.answered()).usage.input_tokens < 300 + 60
        long = await call.write("x" * MAX_MODEL_LEN)
        assert "left out" in await call.refused()
        await call.connection.conversation.item.delete(item_id=long)
        await call.write("And now?")
        assert (await call.answered()).status == "incomplete"

    async def scenario() -> None:
        async with (
            AsyncOpenAI(base_url=base_url(server), api_key="any") as client,
            client.realtime.connect(model="cascade") as connection,
        ):
            await talk(Written(connection))

    asyncio.run(asyncio.wait_for(scenario(), 3 * LIMIT_S))


def test_a_chat_that_is_too_long_is_refused_by_openais_code(server: ServerProcess) -> None:
    messages: Any = [{"role": "user", "content": "Hi. " * 10}] * 20
    with (
        OpenAI(base_url=base_url(server), api_key="any", timeout=LIMIT_S) as client,
        pytest.raises(BadRequestError) as caught,
    ):
        client.chat.completions.create(model="cascade", messages=messages)
    assert (caught.value.code, caught.value.param) == ("context_length_exceeded", "messages")
