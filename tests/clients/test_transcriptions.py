"""openai-python has speech written down: the server's own speech, and files of other kinds."""

from __future__ import annotations

import asyncio
import base64
import io
import itertools
import json
import wave
from typing import Any

import numpy as np
import pytest
from openai import AsyncOpenAI, BadRequestError, NotFoundError, OpenAI
from openai.types.audio import TranscriptionCreateResponse

from benchmarks.word_errors import num_errors, words
from tests.clients.speech import Format, open_client
from tests.e2e.server_process import ServerProcess
from tests.spoken import RATE, SENTENCES, Samples, conversation, noise, silence, spoken

pytestmark = pytest.mark.asr

TEXT = " ".join(SENTENCES)
RUNNING = 'voxloom_engine_requests{pipeline="transcribe",state="running"}'
# A first request starts the engine; on a busy machine its weights take a while.
_TIMEOUT_S = 180.0


@pytest.fixture
def client(server: ServerProcess) -> Any:
    with open_client(server) as client:
        yield client.with_options(timeout=_TIMEOUT_S)


def wav(audio: Samples) -> tuple[str, bytes, str]:
    """A file as clients send one: its name, its bytes, its type."""
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setparams((1, 2, RATE, 0, "NONE", ""))
        file.writeframes((np.clip(audio, -1, 1) * 32767).astype("<i2").tobytes())
    return "speech.wav", buffer.getvalue(), "audio/wav"


def check_text(text: str, expected: str = TEXT, num_allowed: int = 3) -> None:
    assert num_errors(words(expected), words(text)) <= num_allowed, text


def speak(client: OpenAI, text: str, fmt: Format) -> tuple[bytes, list[dict[str, Any]]]:
    """The server's own speech, with the times of its words."""
    answer = client.audio.speech.with_raw_response.create(
        model="tts-1",
        voice="alloy",
        input=text,
        response_format=fmt,
        extra_body={"timestamp_granularities": ["word"], "seed": 1},
    )
    body = json.loads(answer.content)
    return base64.b64decode(body["audio"]), body["words"]


def test_the_servers_own_speech_is_written_down_with_the_times_of_its_words(
    client: OpenAI,
) -> None:
    audio, spoken_words = speak(client, TEXT, "flac")

    heard = client.audio.transcriptions.create(
        model="whisper-1",
        file=("speech.flac", audio),
        response_format="verbose_json",
        timestamp_granularities=["word", "segment"],
    )

    check_text(heard.text)
    assert heard.language == "english"
    assert heard.words is not None
    assert heard.segments is not None
    assert "".join(segment.text for segment in heard.segments).strip() == heard.text
    assert all(a.end <= b.start + 0.25 for a, b in itertools.pairwise(heard.words))
    # Where the words are the same, they are heard when they were spoken.
    said = {w["word"].lower().strip(".,?"): w["start_ms"] / 1000 for w in spoken_words}
    late = [
        abs(w.start - said[word])
        for w in heard.words
        if (word := w.word.lower().strip(".,?")) in said and list(said).count(word) == 1
    ]
    assert len(late) > 20
    assert float(np.median(late)) < 0.25


@pytest.mark.parametrize("fmt", ["mp3", "opus", "aac"])
def test_what_the_server_speaks_it_understands(client: OpenAI, fmt: Format) -> None:
    audio, _ = speak(client, SENTENCES[0], fmt)

    heard = client.audio.transcriptions.create(model="gpt-4o-transcribe", file=audio)

    check_text(heard.text, SENTENCES[0], 1)
    assert heard.usage is not None
    assert heard.usage.type == "tokens"


def test_a_stream_comes_in_pieces_that_make_the_text(client: OpenAI) -> None:
    events = list(
        client.audio.transcriptions.create(
            model="gpt-4o-mini-transcribe",
            file=wav(np.tile(conversation(), 2)),
            stream=True,
            include=["logprobs"],
        )
    )

    deltas = [event for event in events if event.type == "transcript.text.delta"]
    done = events[-1]
    assert done.type == "transcript.text.done"
    assert "".join(event.delta for event in deltas) == done.text
    assert len(deltas) >= 4
    assert deltas[0].logprobs
    check_text(done.text, f"{TEXT} {TEXT}", 6)


def test_many_at_once_get_their_own_text(server: ServerProcess) -> None:
    async def run() -> list[TranscriptionCreateResponse]:
        async with AsyncOpenAI(
            base_url=f"http://127.0.0.1:{server.port}/v1", api_key="any", timeout=_TIMEOUT_S
        ) as client:
            return await asyncio.gather(
                *(
                    client.audio.transcriptions.create(model="whisper-1", file=wav(spoken(text)))
                    for text in SENTENCES
                )
            )

    for text, heard in zip(SENTENCES, asyncio.run(run()), strict=True):
        check_text(heard.text, text, 1)


def test_an_async_stream_is_read_as_it_comes(server: ServerProcess) -> None:
    async def run() -> str:
        async with AsyncOpenAI(
            base_url=f"http://127.0.0.1:{server.port}/v1", api_key="any", timeout=_TIMEOUT_S
        ) as client:
            stream = await client.audio.transcriptions.create(
                model="whisper-1", file=wav(spoken(SENTENCES[1])), stream=True
            )
            return "".join([e.delta async for e in stream if e.type == "transcript.text.delta"])

    check_text(asyncio.run(run()), SENTENCES[1], 1)


def test_subtitles_come_as_text(client: OpenAI) -> None:
    srt = client.audio.transcriptions.create(
        model="whisper-1", file=wav(spoken(SENTENCES[0])), response_format="srt"
    )

    number, times, text, *_ = srt.split("\n")
    assert number == "1"
    assert times.startswith("00:00:0")
    assert " --> " in times
    assert set(words(text)) <= set(words(SENTENCES[0]))


def test_each_pause_ends_a_segment_where_that_is_asked_for(client: OpenAI) -> None:
    heard = client.audio.transcriptions.create(
        model="whisper-1",
        file=wav(conversation()),
        response_format="verbose_json",
        chunking_strategy={"type": "server_vad", "silence_duration_ms": 700},
    )

    assert heard.segments is not None
    assert len({segment.seek for segment in heard.segments}) == len(SENTENCES)
    check_text(heard.text)


@pytest.mark.parametrize("audio", [silence(12.0), noise(12.0)], ids=["silence", "noise"])
def test_nothing_is_made_up_where_nobody_speaks(client: OpenAI, audio: Samples) -> None:
    heard = client.audio.transcriptions.create(model="whisper-1", file=wav(audio))

    assert heard.text == ""


@pytest.mark.filterwarnings("ignore:deprecated:DeprecationWarning")
def test_what_english_weights_cannot_do_is_refused_by_name(client: OpenAI) -> None:
    with pytest.raises(BadRequestError, match="English only") as translation:
        client.audio.translations.create(model="whisper-1", file=wav(spoken(SENTENCES[0])))
    with pytest.raises(BadRequestError, match="must be one of en, got 'de'") as german:
        client.audio.transcriptions.create(
            model="whisper-1", file=wav(spoken(SENTENCES[0])), language="de"
        )
    with pytest.raises(BadRequestError) as klingon:
        client.audio.transcriptions.create(
            model="whisper-1", file=wav(silence(1.0)), language="klingon"
        )

    assert translation.value.param == "model"
    assert german.value.param == klingon.value.param == "language"


def test_a_broken_file_and_an_unknown_model_are_refused(client: OpenAI) -> None:
    with pytest.raises(BadRequestError) as broken:
        client.audio.transcriptions.create(model="whisper-1", file=b"RIFF is all there is")
    with pytest.raises(NotFoundError) as unknown:
        client.audio.transcriptions.create(model="whisper-9", file=wav(silence(1.0)))

    assert broken.value.param == "file"
    assert unknown.value.code == "model_not_found"


def test_a_client_that_leaves_frees_its_place(server: ServerProcess, client: OpenAI) -> None:
    stream = client.audio.transcriptions.create(
        model="whisper-1", file=wav(np.tile(conversation(), 20)), stream=True
    )
    assert next(iter(stream)).type == "transcript.text.delta"
    server.await_metric(RUNNING, 1)

    stream.close()

    server.await_metric(RUNNING, 0)
