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
from openai import AsyncOpenAI, OpenAI

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
        "max_model_len": 512,
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
