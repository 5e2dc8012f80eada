"""LiveKit's ElevenLabs plugin, with nothing changed but its address."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import numpy as np
import numpy.typing as npt
import pytest
from livekit.agents import APIConnectOptions, APIError, APITimeoutError
from livekit.agents.types import USERDATA_TIMED_TRANSCRIPT
from livekit.plugins import elevenlabs

from tests.clients.conftest import KEY
from tests.e2e.server_process import ServerProcess

RATE = 24000
TEXT = "Better late than never. Tickets cost $3.50, don't they? Dinner is ready."
WORDS = TEXT.split(" ")
RUNNING = 'voxloom_engine_requests{state="running"}'
# Its own ten seconds without audio are little on a busy machine.
PATIENT = APIConnectOptions(max_retry=0, timeout=120.0)


@dataclass
class Heard:
    """Samples at ``RATE``, and each word with its first and last second."""

    samples: list[npt.NDArray[np.int16]] = field(default_factory=list)
    words: list[tuple[str, float, float]] = field(default_factory=list)

    def add(self, frame: Any) -> None:
        self.samples.append(np.frombuffer(frame.data, np.int16))
        for word in frame.userdata.get(USERDATA_TIMED_TRANSCRIPT) or ():
            self.words.append((str(word), word.start_time, word.end_time))

    @property
    def all_samples(self) -> npt.NDArray[np.float64]:
        samples: npt.NDArray[np.float64] = np.concatenate(self.samples).astype(np.float64)
        return samples

    @property
    def duration_s(self) -> float:
        return sum(len(part) for part in self.samples) / RATE


@asynccontextmanager
async def opened(server: ServerProcess, **options: Any) -> AsyncIterator[elevenlabs.TTS]:
    async with aiohttp.ClientSession() as session:
        address = f"http://127.0.0.1:{server.port}/v1"
        wanted = {"api_key": "any", "voice_id": "alloy", "encoding": "pcm_24000"} | options
        tts = elevenlabs.TTS(base_url=address, http_session=session, **wanted)
        try:
            yield tts
        finally:
            await tts.aclose()


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(300):
            await scenario()

    asyncio.run(bounded())


async def stream(tts: elevenlabs.TTS, text: str) -> Heard:
    """The text token by token, to its end."""
    heard, speaking = Heard(), tts.stream(conn_options=PATIENT)
    for start in range(0, len(text), 4):
        speaking.push_text(text[start : start + 4])
    speaking.end_input()
    async for event in speaking:
        heard.add(event.frame)
    await speaking.aclose()
    return heard


def check_words(heard: Heard) -> None:
    """Every word is told in order, and sounds when it is told."""
    assert [word.strip() for word, _, _ in heard.words] == WORDS
    starts = [start for _, start, _ in heard.words]
    assert starts == sorted(starts)
    assert heard.words[-1][2] == pytest.approx(heard.duration_s, abs=0.1)
    samples = heard.all_samples
    loud = np.abs(samples).max()
    for word in ("Tickets", "Dinner"):  # there is a pause before each
        at = round(starts[WORDS.index(word)] * RATE)
        assert np.abs(samples[at - RATE // 10 : at - RATE // 100]).mean() < 0.02 * loud
        assert np.abs(samples[at : at + RATE // 5]).max() > 0.2 * loud


@pytest.mark.parametrize(
    "options",
    [{}, {"chunk_length_schedule": [60, 100]}, {"preferred_alignment": "original"}],
    ids=["sentences", "words by a schedule", "original alignment"],
)
def test_streams_are_spoken_with_an_aligned_transcript(
    server: ServerProcess, options: dict[str, Any]
) -> None:
    async def scenario() -> None:
        async with opened(server, **options) as tts:
            for _ in range(2):
                check_words(await stream(tts, TEXT))

    run(scenario)


def test_its_own_format_is_decoded_as_it_comes(server: ServerProcess) -> None:
    async def scenario() -> None:
        async with opened(server, encoding="mp3_22050_32") as tts:
            heard = await stream(tts, TEXT)
            assert 3.0 < heard.duration_s * RATE / tts.sample_rate < 9.0

    run(scenario)


def test_a_text_is_spoken_as_a_whole(server: ServerProcess) -> None:
    async def scenario() -> None:
        heard = Heard()
        async with opened(server) as tts:
            async for event in tts.synthesize(TEXT, conn_options=PATIENT):
                heard.add(event.frame)
        assert 3.0 < heard.duration_s < 9.0

    run(scenario)


def test_an_interrupted_stream_leaves_its_connection_to_the_next_one(
    server: ServerProcess,
) -> None:
    async def scenario() -> None:
        async with opened(server) as tts:
            for _ in range(7):  # more than a connection may have open
                speaking = tts.stream(conn_options=PATIENT)
                speaking.push_text(f"{TEXT} " * 10)
                assert (await anext(speaking)).frame.duration > 0
                await speaking.aclose()
            check_words(await stream(tts, TEXT))

    run(scenario)
    server.await_metric(RUNNING, 0)


def test_voices_are_listed(server: ServerProcess) -> None:
    async def scenario() -> None:
        async with opened(server) as tts:
            voices = await tts.list_voices()
            assert len({voice.id for voice in voices}) == len(voices) > 5

    run(scenario)


def test_its_built_in_voice_is_one_of_this_servers(server: ServerProcess) -> None:
    async def scenario() -> None:
        async with opened(server, voice_id=elevenlabs.tts.DEFAULT_VOICE_ID) as tts:
            assert (await stream(tts, "Hello there.")).duration_s > 0.5

    run(scenario)


@pytest.mark.parametrize("options", [{"voice_id": "nobody"}, {"model": "gpt-9"}])
def test_what_the_server_has_not_is_an_error_and_no_silence(
    server: ServerProcess, options: dict[str, Any]
) -> None:
    async def scenario() -> None:
        async with opened(server, **options) as tts:
            speaking = tts.stream(conn_options=PATIENT)
            speaking.push_text(TEXT)
            speaking.end_input()
            with pytest.raises(APIError) as caught:
                await anext(speaking)
            assert not isinstance(caught.value, APITimeoutError)
            await speaking.aclose()

    run(scenario)


def test_a_locked_server_opens_with_its_key_only(locked_server: ServerProcess) -> None:
    async def scenario() -> None:
        async with opened(locked_server, api_key=KEY, voice_id="low") as tts:
            assert await tts.list_voices()
        async with opened(locked_server, api_key="wrong", voice_id="low") as tts:
            speaking = tts.stream(conn_options=PATIENT)
            speaking.push_text(TEXT)
            speaking.end_input()
            with pytest.raises(APIError) as caught:
                await anext(speaking)
            assert getattr(caught.value, "status_code", None) == 401
            await speaking.aclose()

    run(scenario)
