"""Decoders off the event loop: each runs on a small pool of threads, one call at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, BinaryIO, TypeVar

from server.audio.decoder import AudioReader, Samples

T = TypeVar("T")


class ThreadedReader:
    """An ``AudioReader`` that lives on the pool's threads; it is opened there too.

    ``discard`` must be called at the end; it closes the file.
    """

    def __init__(self, threads: ThreadPoolExecutor, file: BinaryIO, param: str) -> None:
        self._threads = threads
        self._file = file
        self._param = param
        self._reader: AudioReader | None = None
        self._job: Future[Any] | None = None

    async def read(self, num_samples: int) -> Samples:
        """See ``AudioReader.read``."""
        return await self._run(partial(self._read, num_samples))

    def discard(self) -> None:
        """Free the decoder, after the call that may still be running on a thread."""
        job = self._job or _done()
        job.add_done_callback(lambda _: self._close())

    async def _run(self, call: Callable[[], T]) -> T:
        job = self._threads.submit(call)
        self._job = job
        return await asyncio.wrap_future(job)

    def _read(self, num_samples: int) -> Samples:
        if self._reader is None:
            self._reader = AudioReader(self._file, self._param)
        return self._reader.read(num_samples)

    def _close(self) -> None:
        if self._reader is not None:
            self._reader.close()
        self._file.close()


class DecoderPool:
    """The threads that decode, for all requests."""

    def __init__(self, num_threads: int) -> None:
        self._threads = ThreadPoolExecutor(num_threads, thread_name_prefix="decoder")

    def open(self, file: BinaryIO, param: str = "file") -> ThreadedReader:
        """A reader of ``file``; errors are about ``param``."""
        return ThreadedReader(self._threads, file, param)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def _done() -> Future[Any]:
    job: Future[Any] = Future()
    job.set_result(None)
    return job
