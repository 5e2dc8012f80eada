"""The part of the fake engine whose text comes in pieces: a sine per sentence, words and all."""

from __future__ import annotations

import asyncio
import math
import re
from array import array
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any

from engine.errors import RequestAbortedError, UnknownRequestError, VoxloomError
from engine.outputs import OmniInteractionPrompt, OmniRequestOutput
from engine.trace import current_trace

RATE = 24000
SAMPLES_PER_CHAR = 480
CHUNK_SAMPLES = 1920
_STEP = 2 * math.pi * 440 / RATE
_SENTENCE = re.compile(r".*?[.!?](?=\s)", re.DOTALL)


def sine(num_samples: int) -> bytes:
    """int16 LE of a 440 Hz tone."""
    return array("h", (round(8000 * math.sin(i * _STEP)) for i in range(num_samples))).tobytes()


@dataclass
class Stream:
    """An open request: its prompt, what it was told, and the sentences that wait to be spoken."""

    prompt: dict[str, Any]
    ticket: Any
    trace: dict[str, str] = field(default_factory=dict)
    log: list[Any] = field(default_factory=list)
    buffer: str = ""
    offset: int = 0
    num_samples: int = 0
    sentences: asyncio.Queue[tuple[int, str] | VoxloomError | None] = field(
        default_factory=asyncio.Queue
    )

    def speak(self, num_chars: int) -> None:
        text = self.buffer[:num_chars]
        start = self.offset + len(text) - len(text.lstrip())
        if text.strip():
            self.sentences.put_nowait((start, text.strip()))
        self.buffer, self.offset = self.buffer[num_chars:], self.offset + num_chars


class FakeStreams:
    """``before_chunk`` of the script is awaited here too."""

    def __init__(self) -> None:
        self.streams: dict[str, Stream] = {}
        self.ended: list[Stream] = []

    async def add_request_async(
        self, request_id: str, prompt: dict[str, Any], **options: Any
    ) -> None:
        ticket = self.admit()  # type: ignore[attr-defined]
        assert options["resumable"]
        self.streams[request_id] = Stream(prompt, ticket, dict(current_trace.get()))

    async def add_streaming_update_async(
        self, request_id: str, prompt: dict[str, Any], *, resumable: bool = True
    ) -> None:
        stream = self._stream(request_id)
        stream.log.append(prompt["text"])
        stream.buffer += prompt["text"]
        while match := _SENTENCE.match(stream.buffer):
            stream.speak(match.end())
        if not resumable:
            stream.speak(len(stream.buffer))
            stream.sentences.put_nowait(None)

    async def submit_interaction_async(
        self, request_id: str, interaction: OmniInteractionPrompt
    ) -> None:
        stream = self._stream(request_id)
        stream.log.append((interaction.kind, interaction.arguments))
        stream.speak(len(stream.buffer))

    async def outputs(self, request_id: str) -> AsyncGenerator[OmniRequestOutput, None]:
        stream = self._stream(request_id)
        while (sentence := await stream.sentences.get()) is not None:
            if isinstance(sentence, VoxloomError):
                raise sentence
            async for output in self._spoken(request_id, stream, *sentence):
                yield output
        self._end(request_id)
        yield OmniRequestOutput(request_id, 1, finished=True)

    async def abort(self, request_ids: list[str]) -> None:
        for request_id in request_ids:
            if request_id in self.streams:
                self.streams[request_id].sentences.put_nowait(RequestAbortedError("aborted"))
                self._end(request_id)

    async def _spoken(
        self, request_id: str, stream: Stream, start: int, text: str
    ) -> AsyncGenerator[OmniRequestOutput, None]:
        pcm, first = memoryview(sine(len(text) * SAMPLES_PER_CHAR)), stream.num_samples
        words = [
            tuple(first + at * SAMPLES_PER_CHAR for at in m.span())
            + tuple(start + at for at in m.span())
            for m in re.finditer(r"\S+", text)
        ]
        script = self.script  # type: ignore[attr-defined]
        for number, at in enumerate(range(0, len(pcm), CHUNK_SAMPLES * 2)):
            if script.before_chunk is not None:
                await script.before_chunk(number)
            if number == script.fail_at_chunk:
                self._end(request_id)
                raise script.error
            piece = pcm[at : at + CHUNK_SAMPLES * 2]
            payload = {
                "words": words if at == 0 else [],
                "sentence": (start, start + len(text), at + CHUNK_SAMPLES * 2 >= len(pcm)),
            }
            num = len(piece) // 2
            stream.num_samples += num
            yield OmniRequestOutput(request_id, 1, piece, first + at // 2, num, RATE, payload)

    def _stream(self, request_id: str) -> Stream:
        if request_id not in self.streams:
            raise UnknownRequestError(f"no request {request_id!r}", param="request_id")
        return self.streams[request_id]

    def _end(self, request_id: str) -> None:
        stream = self.streams.pop(request_id)
        stream.ticket.release()
        self.ended.append(stream)
