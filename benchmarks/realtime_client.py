"""A client of the realtime socket with a microphone that never stops, as a telephone has.

All times are seconds of ``time.monotonic``, which every process of the machine shares.
"""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from websockets.asyncio.client import ClientConnection, connect

from benchmarks.bare_library import BareLibrary
from benchmarks.silence import loud_span
from benchmarks.speech_client import SAMPLE_RATE, Pcm

OnEvent = Callable[[float, dict[str, Any]], None]

# A server that says nothing for this long will not.
_PATIENCE_S = 60.0
SILENCE_MS = 200


@dataclass(frozen=True, slots=True)
class Utterance:
    """Something that was said into a microphone; samples are counted from its beginning."""

    first_loud: int
    last_loud: int
    last: int


class Microphone:
    """Sends a chunk whenever one has been recorded; what is not said is silence."""

    def __init__(self, socket: ClientConnection, chunk_ms: int) -> None:
        self._socket = socket
        self._chunk_samples = SAMPLE_RATE * chunk_ms // 1000
        self._silence = _append(np.zeros(self._chunk_samples, np.int16))
        self._waiting: deque[str] = deque()
        self._num_sent = 0
        self.started_at = time.monotonic()
        self._sent_at: list[float] = []

    def say(self, speech: Pcm) -> Utterance:
        """Begin to speak with the next chunk."""
        begin = (self._num_sent + len(self._waiting)) * self._chunk_samples
        size = self._chunk_samples
        padded = np.pad(speech, (0, -len(speech) % size))
        self._waiting.extend(_append(padded[i : i + size]) for i in range(0, len(padded), size))
        first, last = loud_span(speech)
        return Utterance(begin + first, begin + last, begin + len(padded))

    def recorded_at(self, sample: int) -> float:
        """When a sample was spoken."""
        return self.started_at + sample / SAMPLE_RATE

    def sent_at(self, sample: int) -> float:
        """When the chunk that holds a sample was sent."""
        return self._sent_at[sample // self._chunk_samples]

    async def run(self) -> None:
        """Record until cancelled."""
        while True:
            due = self.recorded_at((self._num_sent + 1) * self._chunk_samples)
            await asyncio.sleep(max(due - time.monotonic(), 0.0))
            chunk = self._waiting.popleft() if self._waiting else self._silence
            self._num_sent += 1
            self._sent_at.append(time.monotonic())
            await self._socket.send(chunk)


class RealtimeClient:
    """One session. Its events are kept, with the times at which they came."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._news = asyncio.Event()
        self.events: list[tuple[float, dict[str, Any]]] = []
        self.on_event: OnEvent = lambda _at, _event: None

    async def send(self, kind: str, **fields: Any) -> None:
        await self._socket.send(json.dumps({"type": kind} | fields))

    async def write(self, text: str) -> None:
        """Put a message of the user's into the conversation."""
        content = [{"type": "input_text", "text": text}]
        message = {"type": "message", "role": "user", "content": content}
        await self.send("conversation.item.create", item=message)

    async def run(self) -> None:
        """Read until cancelled. Raises ``RuntimeError`` for an error event."""
        async for message in self._socket:
            now = time.monotonic()
            event = json.loads(message)
            if event["type"] == "error":
                raise RuntimeError(f"the server refused: {event['error']['message']}")
            self.events.append((now, event))
            self.on_event(now, event)
            self._news.set()

    async def until(self, *kinds: str, after: int = 0) -> tuple[int, float, dict[str, Any]]:
        """The first event of one of these types from number ``after`` on: number, time, event.

        Raises ``TimeoutError``.
        """
        number = after
        async with asyncio.timeout(_PATIENCE_S):
            while True:
                while number < len(self.events):
                    at, event = self.events[number]
                    if event["type"] in kinds:
                        return number, at, event
                    number += 1
                self._news.clear()
                await self._news.wait()


@asynccontextmanager
async def realtime(
    port: int, *, chunk_ms: int, **turn_detection: Any
) -> AsyncIterator[tuple[RealtimeClient, Microphone]]:
    """A session of the server on this machine, configured, its microphone running."""
    detection = {"type": "server_vad", "silence_duration_ms": SILENCE_MS} | turn_detection
    listening = {"turn_detection": detection, "transcription": {"model": "whisper-1"}}
    address = f"ws://127.0.0.1:{port}/v1/realtime?model=cascade"
    async with connect(address, max_size=None, compression=None) as socket:
        client = RealtimeClient(socket)
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(client.run())
            session = {"type": "realtime", "audio": {"input": listening}}
            await client.send("session.update", session=session)
            await client.until("session.updated")
            microphone = Microphone(socket, chunk_ms)
            recording = group.create_task(microphone.run())
            yield client, microphone
            recording.cancel()
            reading.cancel()


def sound_of(event: dict[str, Any]) -> bytes:
    """The audio of an event, int16 mono; empty if it has none."""
    is_sound = event["type"] == "response.output_audio.delta"
    return base64.b64decode(event["delta"]) if is_sound else b""


def said_pcm(bare: BareLibrary, text: str) -> Pcm:
    """A text as somebody says it, without the silence around it."""
    pcm = (bare.speak(text) * 32767).astype(np.int16)
    first, last = loud_span(pcm)
    return pcm[first : last + 1]


def _append(chunk: Pcm) -> str:
    audio = base64.b64encode(chunk.tobytes()).decode("ascii")
    return json.dumps({"type": "input_audio_buffer.append", "audio": audio})
