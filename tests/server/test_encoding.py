"""Encoders off the event loop are freed however their request ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor

import pytest

from server.audio.encoder import Encoder
from server.audio.formats import AudioFormat
from server.catalog import ModelCatalog
from server.encoding import EncoderPool, NativePcm, ThreadedEncoder, encode_stream
from server.schemas.speech import SpeechRequest
from server.speech_plan import SpeechPlan, plan_speech
from tests.server.fake_engine import PIPELINE, RATE, FakeEngine, sine

PIECE = memoryview(sine(RATE // 10))


def plan(fmt: AudioFormat, sample_rate: int | None = None) -> SpeechPlan:
    request = SpeechRequest(input="x", response_format=fmt, sample_rate=sample_rate)
    return plan_speech(request, FakeEngine(), ModelCatalog(PIPELINE))


async def pieces(number: int) -> AsyncGenerator[memoryview, None]:
    for _ in range(number):
        yield PIECE


async def collect(pool: EncoderPool, wanted: SpeechPlan) -> bytes:
    return b"".join([bytes(part) async for part in encode_stream(pieces(5), pool.open(wanted))])


def test_native_pcm_is_passed_on_and_not_copied() -> None:
    encoder = EncoderPool(1).open(plan(AudioFormat.PCM))

    assert isinstance(encoder, NativePcm)
    assert asyncio.run(encoder.encode(PIECE)) is PIECE


def test_pcm_at_another_rate_is_resampled() -> None:
    assert len(asyncio.run(collect(EncoderPool(1), plan(AudioFormat.PCM, 12000)))) == RATE // 2


@pytest.mark.parametrize("fmt", list(AudioFormat))
def test_every_format_is_coded(fmt: AudioFormat) -> None:
    assert len(asyncio.run(collect(EncoderPool(1), plan(fmt)))) > 100


@pytest.mark.parametrize("fmt", [AudioFormat.MP3, AudioFormat.OPUS, AudioFormat.FLAC])
def test_the_event_loops_thread_does_not_encode(fmt: AudioFormat) -> None:
    pool = EncoderPool(1)
    encoder = pool.open(plan(fmt))
    seen = _watch(encoder)

    asyncio.run(_use(encoder))

    assert seen
    assert threading.main_thread() not in seen


async def _use(encoder: object) -> None:
    assert isinstance(encoder, ThreadedEncoder)
    await encoder.encode(PIECE)
    await encoder.close()
    encoder.discard()


def _watch(encoder: object) -> set[threading.Thread]:
    """The threads on which the encoder is opened."""
    assert isinstance(encoder, ThreadedEncoder)
    seen: set[threading.Thread] = set()
    open_it = encoder._open

    def watched() -> Encoder:
        seen.add(threading.current_thread())
        return open_it()

    encoder._open = watched  # type: ignore[assignment]
    return seen


class SlowEncoder:
    """Stops inside ``encode`` until it is let go."""

    content_type = "x/y"
    sample_rate = RATE

    def __init__(self) -> None:
        self.is_inside = threading.Event()
        self.may_go = threading.Event()
        self.calls: list[str] = []

    def encode(self, pcm: bytes | memoryview) -> bytes:
        self.is_inside.set()
        self.may_go.wait()
        self.calls.append("encoded")
        return b"x"

    def close(self) -> bytes:
        return b""

    def discard(self) -> None:
        self.calls.append("discarded")


def test_an_encoder_is_discarded_after_the_call_that_still_runs() -> None:
    slow = SlowEncoder()

    async def run() -> None:
        threads = ThreadPoolExecutor(1)
        encoder = ThreadedEncoder(threads, plan(AudioFormat.MP3), None)
        encoder._open = lambda: slow  # type: ignore[assignment]
        task = asyncio.create_task(_drain(encoder))
        await asyncio.to_thread(slow.is_inside.wait)
        task.cancel()
        await asyncio.wait((task,))
        assert slow.calls == []
        slow.may_go.set()
        threads.shutdown()

    asyncio.run(run())
    assert slow.calls == ["encoded", "discarded"]


async def _drain(encoder: ThreadedEncoder) -> None:
    async for _ in encode_stream(pieces(1), encoder):
        pass


def test_discarding_what_was_never_used_is_harmless() -> None:
    EncoderPool(1).open(plan(AudioFormat.MP3)).discard()
