"""Decoders on threads: in order, and freed after the call that still runs."""

from __future__ import annotations

import asyncio
import io
import threading

import pytest

from engine.errors import InvalidRequestError
from server.decoding import DecoderPool
from tests.server.routes.test_transcriptions import wav


class Gated(io.BytesIO):
    """A file whose first read waits for ``gate``."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.gate = threading.Event()
        self.is_read = threading.Event()

    def read(self, size: int | None = -1, /) -> bytes:
        self.is_read.set()
        assert self.gate.wait(120)
        return super().read(size)


def test_a_file_is_read_off_the_event_loop() -> None:
    pool = DecoderPool(1)
    file = Gated(wav(1.0))

    async def run() -> int:
        reader = pool.open(file)
        reading = asyncio.create_task(reader.read(1000))
        assert await asyncio.to_thread(file.is_read.wait, 120)
        # The loop is free although the file is not.
        assert not reading.done()
        file.gate.set()
        num_samples = len(await reading)
        reader.discard()
        return num_samples

    assert asyncio.run(run()) == 1000
    assert file.closed
    pool.close()


def test_a_file_is_closed_only_after_the_call_that_reads_it() -> None:
    pool = DecoderPool(1)
    file = Gated(wav(1.0))

    async def run() -> None:
        reader = pool.open(file)
        reading = asyncio.create_task(reader.read(1000))
        assert await asyncio.to_thread(file.is_read.wait, 120)
        reading.cancel()
        reader.discard()
        assert not file.closed
        file.gate.set()
        await asyncio.wait([reading])
        # The pool's only thread is free again when it has closed the file.
        await pool.open(io.BytesIO(wav(1.0))).read(10)
        assert file.closed

    asyncio.run(run())
    pool.close()


def test_errors_are_about_the_field_that_held_the_audio() -> None:
    pool = DecoderPool(1)

    async def run() -> None:
        reader = pool.open(io.BytesIO(b"no audio"), "input_audio.data")
        with pytest.raises(InvalidRequestError) as caught:
            await reader.read(10)
        assert caught.value.param == "input_audio.data"
        reader.discard()

    asyncio.run(run())
    pool.close()


def test_what_was_never_read_is_closed_at_once() -> None:
    pool, file = DecoderPool(1), io.BytesIO(b"")

    pool.open(file).discard()

    assert file.closed
    pool.close()
