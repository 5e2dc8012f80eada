"""A keep-alive client of ``POST /v1/audio/speech`` that costs next to nothing."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.http_response import ResponseReader

SAMPLE_RATE = 24_000
BYTES_PER_SAMPLE = 2
# int16 [samples], mono, at the sample rate.
Pcm = npt.NDArray[np.int16]

# Called with the time (``time.perf_counter``) and the bytes of each piece of audio.
OnAudio = Callable[[float, bytes], None]


@dataclass(slots=True)
class Answer:
    """What came back for one text; times are of ``time.perf_counter``, in seconds."""

    text: str
    sent_at: float
    status: int | None = None
    first_audio_at: float | None = None
    ended_at: float = 0.0
    num_bytes: int = 0
    is_whole: bool = False
    pcm: list[bytes] = field(default_factory=list)

    @property
    def audio_s(self) -> float:
        return self.num_bytes / BYTES_PER_SAMPLE / SAMPLE_RATE

    @property
    def is_ok(self) -> bool:
        return self.status == 200 and self.is_whole and self.num_bytes > 0

    @property
    def ttfa_s(self) -> float:
        """Raises ``ValueError`` if no audio came."""
        if self.first_audio_at is None:
            raise ValueError(f"no audio came for {self.text[:40]!r}, status {self.status}")
        return self.first_audio_at - self.sent_at


def as_float(pcm: Pcm) -> npt.NDArray[np.float32]:
    """float32 [samples], from -1 to 1."""
    return pcm.astype(np.float32) / np.float32(32768)


class SpeechConnection(asyncio.Protocol):
    """One connection; one text at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._reader = ResponseReader()
        self._answer: Answer | None = None
        self._done: asyncio.Future[None] | None = None
        self._on_audio: OnAudio | None = None

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    async def speak(
        self, text: str, *, on_audio: OnAudio | None = None, keep: bool = False, **fields: Any
    ) -> Answer:
        """Send ``text`` and wait for the end of the answer, or of the connection.

        ``keep`` collects the audio in ``Answer.pcm``; ``fields`` go into the request's body.
        """
        assert self._transport is not None, "connect first"
        payload = _request(text, fields)
        self._reader, self._on_audio = ResponseReader(), on_audio
        self._done = asyncio.get_running_loop().create_future()
        answer = self._answer = Answer(text, time.perf_counter())
        if keep:
            self._on_audio = lambda _, data: answer.pcm.append(data)
        self._transport.write(payload)
        await self._done
        return answer

    def abort(self) -> None:
        """Drop the connection as a client that crashes does."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "write")
        self._transport = transport  # type: ignore[assignment]  # uvloop has a class of its own

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter()
        body = self._reader.feed(data)
        answer = self._answer
        if answer is None:
            return
        answer.status = self._reader.status
        if body and answer.status == 200:
            if answer.first_audio_at is None:
                answer.first_audio_at = now
            answer.num_bytes += len(body)
            if self._on_audio is not None:
                self._on_audio(now, body)
        if self._reader.is_done:
            answer.is_whole = True
            self._finish(now)

    def connection_lost(self, exc: Exception | None) -> None:
        self._finish(time.perf_counter())

    def _finish(self, now: float) -> None:
        if self._answer is not None and self._done is not None and not self._done.done():
            self._answer.ended_at = now
            self._done.set_result(None)


async def connect(port: int) -> SpeechConnection:
    """A connection to the server on this machine."""
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(SpeechConnection, "127.0.0.1", port)
    return connection


async def speak_all(
    port: int, texts: Iterable[str], concurrency: int, *, keep: bool = False, **fields: Any
) -> list[Answer]:
    """Closed loop: ``concurrency`` clients, each asks for the next text when it has its answer.

    The answers are in the order of ``texts``.
    """
    waiting = iter(enumerate(texts))
    answers: dict[int, Answer] = {}

    async def client() -> None:
        connection = await connect(port)
        for index, text in waiting:
            answers[index] = await connection.speak(text, keep=keep, **fields)
            if not connection.is_open:
                connection = await connect(port)
        connection.abort()

    await asyncio.gather(*(client() for _ in range(concurrency)))
    return [answers[index] for index in sorted(answers)]


def _request(text: str, fields: dict[str, Any]) -> bytes:
    body = json.dumps({"input": text, "response_format": "pcm", **fields}).encode()
    head = (
        "POST /v1/audio/speech HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body
