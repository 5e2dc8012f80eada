"""openai-python's chat completions, against a server that thinks with a scripted model."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator
from typing import Any

import pytest
from openai import AsyncOpenAI, BadRequestError, OpenAI

from tests.clients.speech import check_speech, hear
from tests.clients.talking import RUNNING, Talk, said, talking

pytestmark = [pytest.mark.model, pytest.mark.process, pytest.mark.asr]

GREETING = "Good morning to you. It is a fine day."


@pytest.fixture(scope="module")
def talk() -> Iterator[Talk]:
    with talking() as talk:
        yield talk


@pytest.fixture
def client(talk: Talk) -> Iterator[OpenAI]:
    with OpenAI(base_url=talk.base_url, api_key="any", max_retries=0) as client:
        yield client


def user(content: Any) -> Any:
    return [{"role": "user", "content": content}]


def test_text_alone(client: OpenAI) -> None:
    answer = client.chat.completions.create(model="m", messages=user(f"say {GREETING}"))
    assert answer.choices[0].message.content == GREETING
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == 11


@pytest.mark.parametrize("fmt", ["wav", "mp3", "flac", "opus", "aac"])
def test_a_spoken_answer_in_each_format(client: OpenAI, fmt: Any) -> None:
    answer = client.chat.completions.create(
        model="m",
        modalities=["text", "audio"],
        audio={"voice": "alloy", "format": fmt},
        messages=user(f"say {GREETING}"),
    )
    audio = answer.choices[0].message.audio
    assert audio is not None
    assert audio.transcript == GREETING
    check_speech(base64.b64decode(audio.data), fmt, 2.0, 4.5)


def test_the_stream_helper_puts_an_answer_together(client: OpenAI) -> None:
    with client.chat.completions.stream(
        model="m",
        modalities=["text", "audio"],
        audio={"voice": "alloy", "format": "pcm16"},
        messages=user(f"say {GREETING}"),
        stream_options={"include_usage": True},
    ) as stream:
        kinds = [event.type for event in stream]
        whole = stream.get_final_completion()
    audio = whole.choices[0].message.audio
    assert kinds.count("chunk") > 5
    assert audio is not None
    assert audio.transcript == GREETING
    assert audio.id.startswith("audio_")
    assert len(audio.id) == len("audio_") + 24
    assert 2.0 < hear(base64.b64decode(audio.data), "pcm").duration_s < 4.5
    assert audio.expires_at < 3_000_000_000
    assert whole.usage is not None
    assert whole.usage.completion_tokens_details is not None
    assert whole.usage.completion_tokens_details.audio_tokens


def test_what_was_said_is_understood_and_may_be_referred_to(client: OpenAI, talk: Talk) -> None:
    spoken = client.chat.completions.create(
        model="m",
        modalities=["text", "audio"],
        audio={"voice": "alloy", "format": "wav"},
        messages=user("say Could you tell me how to get to the museum, please?"),
    )
    audio = spoken.choices[0].message.audio
    assert audio is not None
    part = {"type": "input_audio", "input_audio": {"data": audio.data, "format": "wav"}}
    messages = [*user("Hi."), {"role": "assistant", "audio": {"id": audio.id}}, *user([part])]
    answer = client.chat.completions.create(model="m", messages=messages)
    assert "museum" in (answer.choices[0].message.content or "")
    asked = talk.llm.asked()[-1]["messages"]
    assert asked[1]["content"].startswith("Could you tell me")
    assert answer.usage is not None
    assert answer.usage.prompt_tokens_details is not None
    assert answer.usage.prompt_tokens_details.audio_tokens


def test_a_tool_turn(client: OpenAI) -> None:
    tool: Any = {
        "type": "function",
        "function": {"name": "add", "parameters": {"type": "object", "properties": {}}},
    }
    asked = client.chat.completions.create(
        model="m", tools=[tool], messages=user('call add {"a": 2, "b": 3}')
    )
    (call,) = asked.choices[0].message.tool_calls or []
    assert call.type == "function"
    assert (call.function.name, call.function.arguments) == ("add", '{"a": 2, "b": 3}')
    assert asked.choices[0].finish_reason == "tool_calls"
    messages = [
        *user("Two and three?"),
        asked.choices[0].message.model_dump(exclude_none=True),
        {"role": "tool", "tool_call_id": call.id, "content": "5"},
    ]
    answer = client.chat.completions.create(model="m", tools=[tool], messages=messages)
    assert answer.choices[0].message.content == "It is: 5."


def test_what_the_model_refuses_is_a_400(client: OpenAI) -> None:
    with pytest.raises(BadRequestError, match="as the script says"):
        client.chat.completions.create(model="m", messages=user("status 400"))


def test_a_client_that_leaves_is_let_go(talk: Talk) -> None:
    async def leave() -> None:
        async with AsyncOpenAI(base_url=talk.base_url, api_key="any") as client:
            stream = await client.chat.completions.create(
                model="m", messages=user("say One.\nhang"), stream=True
            )
            async for chunk in stream:
                if chunk.choices[0].delta.content:
                    break
            await asyncio.to_thread(talk.server.await_metric, RUNNING, 1)
            await stream.close()

    asyncio.run(leave())
    talk.server.await_metric(RUNNING, 0)


def test_broken_audio_names_its_field(client: OpenAI) -> None:
    for data in ("aGVsbG8=", base64.b64encode(said("Hi.")[:500]).decode()):
        part = {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}
        with pytest.raises(BadRequestError) as caught:
            client.chat.completions.create(model="m", messages=user([part]))
        assert caught.value.param == "messages[0].content[0].input_audio.data"
