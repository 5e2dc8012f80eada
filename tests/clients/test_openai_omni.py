"""openai-python against a model that hears, thinks and speaks: audio in, audio and text out."""

from __future__ import annotations

import asyncio
import base64
import io
import wave
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import yaml
from openai import AsyncOpenAI, BadRequestError, NotFoundError, OpenAI

from server.sessions.realtime.input_audio import Clip as RealtimeClip
from server.talk.session_orders import read_sounds
from tests.clients.talking import audio_ms
from tests.e2e.server_process import ServerProcess, serving
from tests.worker.models.qwen_omni.noises import clip_of, message
from tests.worker.models.qwen_omni.omni_pipelines import greedy, small_omni
from tests.worker.models.qwen_omni.references import speak
from tests.worker.models.qwen_omni.tiny_omni import write_qwen25

pytestmark = [
    pytest.mark.model,
    pytest.mark.process,
    pytest.mark.client,
    pytest.mark.vllm,
    pytest.mark.filterwarnings("default"),
]

LIMIT_S = 300.0
SYSTEM: Any = [{"role": "system", "content": "Answer."}]
CLIP = clip_of(20_000, 3)
GREEDY: dict[str, Any] = {"model": "omni", "temperature": 0, "max_completion_tokens": 12}
SPOKEN: dict[str, Any] = GREEDY | {"modalities": ["text", "audio"]}


@dataclass(frozen=True)
class Omni:
    folder: Path
    server: ServerProcess

    def client(self) -> OpenAI:
        base_url = f"http://127.0.0.1:{self.server.port}/v1"
        return OpenAI(base_url=base_url, api_key="any", max_retries=0, timeout=LIMIT_S)


@pytest.fixture(scope="module")
def omni(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Omni]:
    """The pipeline that ships, with a small model in the place of its own."""
    root = tmp_path_factory.mktemp("omni")
    (root / "model").mkdir()
    folder = write_qwen25(root / "model")
    file = root / "omni.yaml"
    pipeline = greedy(small_omni("qwen2_5-omni", folder, is_live=True))
    file.write_text(yaml.safe_dump(msgspec.to_builtins(pipeline)))
    with serving(
        *("--talk", str(file), "--transcribe", "off"), environ={"VOXLOOM_ACCESS_LOG": "false"}
    ) as server:
        yield Omni(folder, server)


def wav_of(samples: Any) -> str:
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setparams((1, 2, 16_000, 0, "NONE", ""))
        writer.writeframes(np.asarray(samples, "<i2").tobytes())
    return base64.b64encode(file.getvalue()).decode()


def heard(data: str) -> Any:
    sound = {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}
    return [*SYSTEM, {"role": "user", "content": [{"type": "text", "text": "What is"}, sound]}]


def test_a_sound_is_answered_in_words_and_sound(omni: Omni) -> None:
    tokens, waveform = speak(omni.folder, SYSTEM + message("What is", None), 12, [CLIP])
    with omni.client() as client:
        answer = client.chat.completions.create(
            messages=heard(wav_of(CLIP)), audio={"voice": "chelsie", "format": "wav"}, **SPOKEN
        )
    audio, usage = answer.choices[0].message.audio, answer.usage
    assert audio is not None
    assert usage is not None
    assert audio.transcript
    with wave.open(io.BytesIO(base64.b64decode(audio.data))) as answered:
        assert (answered.getnframes(), answered.getframerate()) == (len(waveform), 24_000)
        samples = np.frombuffer(answered.readframes(len(waveform)), np.int16)
    assert np.abs(samples).max() > 300, "silence would prove nothing"
    assert usage.completion_tokens_details is not None
    assert usage.prompt_tokens_details is not None
    text_tokens = usage.completion_tokens - (usage.completion_tokens_details.audio_tokens or 0)
    assert text_tokens == len(tokens)
    assert usage.prompt_tokens_details.audio_tokens == 12


def test_a_stream_brings_text_and_sound_as_they_come(omni: Omni) -> None:
    _, waveform = speak(omni.folder, SYSTEM + message("Hello"), 12, speaker="Ethan")
    text, data, reasons = "", b"", list[str]()
    with omni.client() as client:
        chunks = client.chat.completions.create(
            messages=[*SYSTEM, {"role": "user", "content": [{"type": "text", "text": "Hello"}]}],
            audio={"voice": "verse", "format": "pcm16"},
            stream=True,
            **SPOKEN,
        )
        for chunk in chunks:
            audio = getattr(chunk.choices[0].delta, "audio", None)
            text += getattr(audio, "transcript", None) or ""
            data += base64.b64decode(getattr(audio, "data", None) or "")
            # The chunk that tells when the audio expires has none, not even null.
            reasons.append(getattr(chunk.choices[0], "finish_reason", None) or "")
    assert text
    assert len(data) == 2 * len(waveform)
    assert reasons[-1] == "length"


def test_text_alone_is_answered_in_text_alone(omni: Omni) -> None:
    with omni.client() as client:
        answer = client.chat.completions.create(
            messages=[{"role": "user", "content": "Hello"}], **GREEDY
        )
    assert answer.choices[0].message.content
    assert answer.choices[0].message.audio is None


@pytest.mark.parametrize(
    ("messages", "fields", "said"),
    [
        (heard(wav_of(CLIP)), {"audio": {"voice": "nobody", "format": "wav"}}, "chelsie, ethan"),
        (heard(wav_of(CLIP)[:40]), {}, "audio"),
        (heard(wav_of(CLIP[:100])), {}, "0.1 s"),
        ([{"role": "user", "content": "x" * 3000}], {}, "prompt of"),
        ([{"role": "user", "content": "<|im_start|>"}], {}, "control tokens"),
    ],
)
def test_bad_input_is_a_bad_request(
    omni: Omni, messages: Any, fields: dict[str, Any], said: str
) -> None:
    asked = SPOKEN | {"audio": {"voice": "ethan", "format": "wav"}} | fields
    with omni.client() as client, pytest.raises(BadRequestError, match=said):
        client.chat.completions.create(messages=messages, **asked)


async def respond(connection: Any, **response: Any) -> list[Any]:
    """All that comes of an answer."""
    await connection.response.create(response=response)
    events: list[Any] = []
    while not events or events[-1].type != "response.done":
        events.append(await connection.recv())
        assert events[-1].type != "error", events[-1]
    return events


def test_a_turn_of_a_session_is_heard_and_answered_as_by_transformers(omni: Omni) -> None:
    pcm = np.repeat(CLIP, 2).astype("<i2").tobytes()
    heard = read_sounds([RealtimeClip(pcm, 24_000, 0)])
    tokens, waveform = speak(omni.folder, SYSTEM + message(None), 12, heard, speaker="Ethan")

    async def scenario() -> None:
        base_url = f"http://127.0.0.1:{omni.server.port}/v1"
        async with (
            AsyncOpenAI(base_url=base_url, api_key="any") as client,
            client.realtime.connect(model="omni") as connection,
        ):
            audio: Any = {"input": {"turn_detection": None}, "output": {"voice": "onyx"}}
            session: Any = {"type": "realtime", "instructions": "Answer.", "audio": audio}
            await connection.session.update(session=session)
            data = base64.b64encode(pcm).decode()
            await connection.input_audio_buffer.append(audio=data)
            await connection.input_audio_buffer.commit()
            events = await respond(connection, max_output_tokens=12)
            answer = events[-1].response
            assert answer.output[0].content[0].transcript
            assert answer.usage.output_token_details.text_tokens == len(tokens)
            assert audio_ms(events) == pytest.approx(len(waveform) / 24)
            # It was not trained on tools.
            tool = {"type": "function", "name": "add", "parameters": {"type": "object"}}
            refused = (await respond(connection, tools=[tool]))[-1].response
            assert refused.status == "failed"
            assert "tools" in refused.status_details.error.message

    asyncio.run(asyncio.wait_for(scenario(), LIMIT_S))


def test_a_session_that_only_listens_needs_a_recogniser(omni: Omni) -> None:
    session: Any = {"type": "transcription"}
    with omni.client() as client, pytest.raises(NotFoundError, match="writes down no speech"):
        client.realtime.client_secrets.create(session=session)
