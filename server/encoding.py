"""Encoders off the event loop: each runs on a small pool of threads, one call at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Protocol

from server.audio.encoder import Encoder, open_encoder
from server.audio.formats import AudioFormat
from server.audio.g711 import G711Law


class Coding(Protocol):
    """How a response is coded: its format, the engine's rate and its own, in Hz."""

    @property
    def fmt(self) -> AudioFormat: ...

    @property
    def source_rate(self) -> int: ...

    @property
    def sample_rate(self) -> int: ...

    @property
    def bit_rate(self) -> int | None:
        """In bit/s; None for the format's own."""

    @property
    def law(self) -> G711Law | None:
        """How pcm is coded in 8 bits, if it is."""


class AsyncEncoder(Protocol):
    """An encoder of one response. ``discard`` must be called at the end, also after ``close``."""

    async def encode(self, pcm: memoryview) -> bytes | memoryview: ...

    async def close(self) -> bytes: ...

    def discard(self) -> None: ...


class NativePcm:
    """pcm at the pipeline's own rate: what the engine gave goes out, without a copy."""

    async def encode(self, pcm: memoryview) -> memoryview:
        return pcm

    async def close(self) -> bytes:
        return b""

    def discard(self) -> None:
        pass


class InlineEncoder:
    """For encoders that cost less than a hop to another thread: headers and copies."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder

    async def encode(self, pcm: memoryview) -> bytes:
        return self._encoder.encode(pcm)

    async def close(self) -> bytes:
        return self._encoder.close()

    def discard(self) -> None:
        self._encoder.discard()


class ThreadedEncoder:
    """An encoder that lives on the pool's threads; it is opened there too."""

    def __init__(self, threads: ThreadPoolExecutor, plan: Coding, num_samples: int | None):
        self._threads = threads
        self._open = partial(_open, plan, num_samples)
        self._encoder: Encoder | None = None
        self._job: Future[bytes] | None = None

    async def encode(self, pcm: memoryview) -> bytes:
        return await self._run(partial(self._encode, pcm))

    async def close(self) -> bytes:
        return await self._run(self._close)

    def discard(self) -> None:
        """Free the encoder, after the call that may still be running on a thread."""
        if self._job is not None:
            self._job.add_done_callback(self._discard_now)

    async def _run(self, call: Callable[[], bytes]) -> bytes:
        self._job = self._threads.submit(call)
        return await asyncio.wrap_future(self._job)

    def _discard_now(self, _: Future[bytes]) -> None:
        if self._encoder is not None:
            self._encoder.discard()

    def _encode(self, pcm: memoryview) -> bytes:
        return self._opened().encode(pcm)

    def _close(self) -> bytes:
        return self._opened().close()

    def _opened(self) -> Encoder:
        if self._encoder is None:
            self._encoder = self._open()
        return self._encoder


class EncoderPool:
    """The threads that encode, for all requests."""

    def __init__(self, num_threads: int) -> None:
        self._threads = ThreadPoolExecutor(num_threads, thread_name_prefix="encoder")

    def open(self, plan: Coding, num_samples: int | None = None) -> AsyncEncoder:
        """An encoder for ``plan``; ``num_samples`` at the source's rate if they are all known."""
        if plan.sample_rate == plan.source_rate and plan.law is None:
            if plan.fmt is AudioFormat.PCM:
                return NativePcm()
            if plan.fmt is AudioFormat.WAV:
                return InlineEncoder(_open(plan, num_samples))
        return ThreadedEncoder(self._threads, plan, num_samples)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


async def encode_stream(
    pcm: AsyncIterator[memoryview], encoder: AsyncEncoder
) -> AsyncGenerator[bytes | memoryview, None]:
    """The coded bytes of ``pcm`` as they come; frees the encoder however it ends."""
    try:
        async for piece in pcm:
            if data := await encoder.encode(piece):
                yield data
        if tail := await encoder.close():
            yield tail
    finally:
        encoder.discard()


def _open(plan: Coding, num_samples: int | None) -> Encoder:
    return open_encoder(
        plan.fmt,
        source_rate=plan.source_rate,
        sample_rate=plan.sample_rate,
        num_samples=num_samples,
        streaming=num_samples is None,
        bit_rate=plan.bit_rate,
        law=plan.law,
    )
