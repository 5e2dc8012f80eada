"""LiveKit's OpenAI speech to text: recordings by HTTP, live audio by a transcription session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from livekit.agents import APIConnectOptions, APIStatusError
from livekit.agents.stt import SpeechEvent, SpeechEventType
from livekit.agents.utils import http_context
from livekit.plugins import openai
from openai import AsyncOpenAI

from tests.clients.livekit_talk import frame_of
from tests.clients.talking import RUNNING, Talk, pieces, said, talking
from tests.e2e.server_process import ServerProcess
from tests.spoken import SENTENCES

pytestmark = [pytest.mark.model, pytest.mark.process, pytest.mark.asr]

ONCE = APIConnectOptions(max_retry=0, timeout=120.0)
LIMIT_S = 300.0
# A word of each sentence that is always understood.
HEARD = ("station", "museum", "sister", "weather")
START, END = SpeechEventType.START_OF_SPEECH, SpeechEventType.END_OF_SPEECH
FINAL, USAGE = SpeechEventType.FINAL_TRANSCRIPT, SpeechEventType.RECOGNITION_USAGE


@pytest.fixture(scope="module")
def talk() -> Iterator[Talk]:
    with talking() as talk:
        yield talk


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with http_context.open():
            await scenario()

    asyncio.run(asyncio.wait_for(bounded(), LIMIT_S))


@asynccontextmanager
async def opened(port: int, **options: Any) -> AsyncIterator[openai.STT]:
    """The plugin leaves its HTTP client open, so it gets one that is closed here."""
    address = f"http://127.0.0.1:{port}/v1"
    async with AsyncOpenAI(base_url=address, api_key="any", max_retries=0) as client:
        stt = openai.STT(client=client, **options)
        try:
            yield stt
        finally:
            await stt.aclose()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"model": "whisper-1", "temperature": 0.0},
        {"model": "gpt-transcribe", "keywords": ["museum"]},
    ],
    ids=["json", "verbose_json", "with keywords"],
)
def test_a_recording_is_written_down(server: ServerProcess, options: dict[str, Any]) -> None:
    async def scenario() -> None:
        async with opened(server.port, **options) as stt:
            event = await stt.recognize(frame_of(said(SENTENCES[1])), conn_options=ONCE)
            assert event.type == FINAL
            (heard,) = event.alternatives
            assert "museum" in heard.text
            assert heard.language == "en"

    run(scenario)


def test_an_unknown_model_is_an_error(server: ServerProcess) -> None:
    async def scenario() -> None:
        async with opened(server.port, model="gpt-9") as stt:
            with pytest.raises(APIStatusError) as caught:
                await stt.recognize(frame_of(said("Hello.")), conn_options=ONCE)
            assert caught.value.status_code == 404

    run(scenario)


async def listen(stt: openai.STT, sentences: tuple[str, ...]) -> list[SpeechEvent]:
    """What the stream tells while these are said, to the last one's words."""
    events: list[SpeechEvent] = []
    speech = b"".join(said(sentence, silence_s=1.5) for sentence in sentences)
    async with stt.stream(conn_options=ONCE) as stream:

        async def speak() -> None:
            async for piece in pieces(speech):
                stream.push_frame(frame_of(piece))

        speaking = asyncio.create_task(speak())
        async for event in stream:
            events.append(event)
            if len(finals(events)) == len(sentences):
                break
        await speaking
    return events


def finals(events: list[SpeechEvent]) -> list[str]:
    return [event.alternatives[0].text for event in events if event.type == FINAL]


def check_turns(events: list[SpeechEvent], heard: tuple[str, ...]) -> None:
    """Each turn begins, ends and is written down, once; its usage follows its words."""
    for word, text in zip(heard, finals(events), strict=True):
        assert word in text
    bounds = [event.type for event in events if event.type in (START, END)]
    assert bounds == [START, END] * len(heard)
    assert [event.type for event in events].count(USAGE) == len(heard) - 1


def test_live_audio_is_written_down_turn_by_turn(talk: Talk) -> None:
    async def scenario() -> None:
        async with opened(talk.server.port, use_realtime=True) as stt:
            check_turns(await listen(stt, SENTENCES[:2]), HEARD[:2])
            # Its connection is kept, and the next stream sets its session anew.
            check_turns(await listen(stt, SENTENCES[2:3]), HEARD[2:3])

    run(scenario)
    talk.server.await_metric(RUNNING, 0)


@pytest.mark.parametrize("model", ["gpt-realtime-whisper", "gpt-live-transcribe"])
def test_a_model_without_endpointing_leaves_the_turns_to_its_client(talk: Talk, model: str) -> None:
    async def scenario() -> None:
        async with opened(talk.server.port, model=model) as stt:
            check_turns(await listen(stt, SENTENCES[:2]), HEARD[:2])

    run(scenario)
    talk.server.await_metric(RUNNING, 0)
