"""ElevenLabs' own package, with nothing changed but its address."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
import pytest
from elevenlabs import VoiceSettings
from elevenlabs.client import AsyncElevenLabs, ElevenLabs
from elevenlabs.core.api_error import ApiError

from tests.clients.conftest import KEY
from tests.clients.speech import TEXT, check_speech
from tests.clients.tls_proxy import tls_in_front
from tests.e2e.server_process import ServerProcess

PACE = (2.0, 4.5)
# The client reads how its socket was closed in a way that websockets will drop one day.
old_way = pytest.mark.filterwarnings("ignore:ConnectionClosed.[a-z]+ is deprecated")
PRICE = "It cost $3.50, she said. Really?"


@contextmanager
def open_eleven(server: ServerProcess, api_key: str) -> Iterator[ElevenLabs]:
    """A client for ``server``. It does not close its connections itself."""
    address = f"http://127.0.0.1:{server.port}"
    with httpx.Client(timeout=120) as http:
        yield ElevenLabs(base_url=address, api_key=api_key, httpx_client=http)


@pytest.fixture
def eleven(server: ServerProcess) -> Iterator[ElevenLabs]:
    with open_eleven(server, "any") as client:
        yield client


def test_a_text_is_converted_to_mp3(eleven: ElevenLabs) -> None:
    parts = eleven.text_to_speech.convert("alloy", text=TEXT, model_id="eleven_multilingual_v2")

    heard = check_speech(b"".join(parts), "mp3", *PACE)
    assert heard.sample_rate == 44100


@pytest.mark.parametrize(("name", "fmt"), [("opus_48000_64", "opus"), ("wav_16000", "wav")])
def test_a_text_is_converted_to_the_format_that_is_asked(
    eleven: ElevenLabs, name: str, fmt: str
) -> None:
    parts = eleven.text_to_speech.convert("alloy", text=TEXT, output_format=name)

    check_speech(b"".join(parts), fmt, *PACE)


def test_speech_is_streamed_in_pieces_and_at_the_speed_that_is_set(eleven: ElevenLabs) -> None:
    def speak(speed: float) -> list[bytes]:
        settings = VoiceSettings(speed=speed, stability=0.5, similarity_boost=0.8)
        return list(
            eleven.text_to_speech.stream(
                "onyx", text=TEXT, output_format="pcm_24000", voice_settings=settings, seed=1
            )
        )

    slow, fast = speak(0.8), speak(1.2)
    assert len(slow) > 3
    assert len(b"".join(slow)) > 1.3 * len(b"".join(fast))


def test_timestamps_are_those_of_the_text_as_it_was_written(eleven: ElevenLabs) -> None:
    answer = eleven.text_to_speech.convert_with_timestamps(
        "alloy", text=PRICE, output_format="pcm_24000"
    )

    times = answer.alignment
    assert times is not None
    assert "".join(times.characters) == PRICE
    starts, ends = times.character_start_times_seconds, times.character_end_times_seconds
    assert starts == sorted(starts)
    assert all(a <= b for a, b in zip(starts, ends, strict=True))
    samples = np.frombuffer(base64.b64decode(answer.audio_base_64), np.int16)
    assert len(samples) / 24000 - 0.2 < ends[-1] <= len(samples) / 24000
    # The pause between the sentences is where the space between them is said to be.
    pause = PRICE.index(". Really") + 1
    silent = samples[round(starts[pause] * 24000) : round(ends[pause] * 24000)]
    assert np.abs(silent.astype(np.float64)).mean() < 0.1 * np.abs(samples.astype(float)).mean()


def test_timestamps_never_come_behind_the_audio_they_are_of(eleven: ElevenLabs) -> None:
    told, heard_s = "", 0.0
    for part in eleven.text_to_speech.stream_with_timestamps(
        "alloy", text=PRICE, output_format="pcm_24000"
    ):
        if part.alignment is not None:
            told += "".join(part.alignment.characters)
            assert part.alignment.character_end_times_seconds[-1] > heard_s
        heard_s += len(base64.b64decode(part.audio_base_64)) / 2 / 24000

    assert told == PRICE


def test_the_asynchronous_client_does_the_same(server: ServerProcess) -> None:
    async def scenario() -> bytes:
        address = f"http://127.0.0.1:{server.port}"
        async with httpx.AsyncClient(timeout=120) as http:
            client = AsyncElevenLabs(base_url=address, api_key="any", httpx_client=http)
            parts: AsyncIterator[bytes] = client.text_to_speech.stream("alloy", text=TEXT)
            return b"".join([part async for part in parts])

    check_speech(asyncio.run(scenario()), "mp3", *PACE)


def test_voices_are_found(eleven: ElevenLabs) -> None:
    voices = eleven.voices.get_all().voices
    assert len({voice.voice_id for voice in voices}) == len(voices) > 5
    assert eleven.voices.get(voices[0].voice_id).name == voices[0].name

    pages: list[str] = []
    token: str | None = None
    while token is not None or not pages:
        page = eleven.voices.search(page_size=5, next_page_token=token)
        pages += [voice.voice_id for voice in page.voices]
        token = page.next_page_token
    assert pages == [voice.voice_id for voice in voices]
    (storyteller,) = eleven.voices.search(search="storyteller").voices
    assert storyteller.description is not None
    assert "storyteller" in storyteller.description.lower()


def test_an_error_tells_the_client_what_is_wrong(eleven: ElevenLabs) -> None:
    with pytest.raises(ApiError) as caught:
        list(eleven.text_to_speech.convert("nobody", text=TEXT))

    assert caught.value.status_code == 404
    assert caught.value.body["detail"]["status"] == "voice_not_found"


def test_the_key_is_taken_from_the_clients_own_header(locked_server: ServerProcess) -> None:
    with open_eleven(locked_server, KEY) as client:
        assert client.voices.get_all() is not None
    with open_eleven(locked_server, "wrong") as client, pytest.raises(ApiError) as caught:
        client.voices.get_all()
    assert caught.value.status_code == 401


@pytest.fixture
def secure(
    server: ServerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ElevenLabs]:
    """The client opens its WebSocket with TLS, whatever its address says."""
    with (
        tls_in_front(server.port, tmp_path) as (port, authority),
        httpx.Client(timeout=120) as http,
    ):
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))
        yield ElevenLabs(base_url=f"https://127.0.0.1:{port}", api_key="any", httpx_client=http)


def tokens() -> Iterator[str]:
    for word in f"{TEXT} And then it slept.".split(" "):
        yield f"{word} "


@old_way
@pytest.mark.parametrize(("name", "fmt"), [("mp3_44100_128", "mp3"), ("pcm_24000", "pcm")])
def test_text_is_spoken_while_it_is_written(secure: ElevenLabs, name: str, fmt: str) -> None:
    parts = secure.text_to_speech.convert_realtime(
        "alloy",
        text=tokens(),
        model_id="eleven_flash_v2_5",
        output_format=name,
        voice_settings=VoiceSettings(stability=0.5, similarity_boost=0.8, speed=1.1),
    )

    check_speech(b"".join(parts), fmt, 2.5, 6.0)


@old_way
def test_a_realtime_error_tells_the_client_what_is_wrong(secure: ElevenLabs) -> None:
    with pytest.raises(ApiError) as caught:
        list(secure.text_to_speech.convert_realtime("nobody", text=tokens()))

    assert "voice_id 'nobody' does not exist" in str(caught.value.body)
    assert caught.value.status_code == 1008
