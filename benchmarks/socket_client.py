"""A client of the speech socket that writes as a language model does and plays what it hears."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as connect_socket

from benchmarks.player import Player
from benchmarks.silence import Word
from benchmarks.speech_client import BYTES_PER_SAMPLE

_TOKENS_PER_S = 30
_CHARS_PER_TOKEN = 4
_CONFIG = {
    "response_format": "pcm",
    "stream_audio": True,
    "split_granularity": "clause",
    "word_timestamps": True,
    "audio_transport": "binary",
}


@dataclass(slots=True)
class Talk:
    """What a listener got of a text.

    ``stalls``: the sample before which the player had to wait, and how many seconds.
    """

    player: Player
    pcm: bytearray = field(default_factory=bytearray)
    words: list[Word] = field(default_factory=list)
    stalls: list[tuple[int, float]] = field(default_factory=list)
    unit_start_ms: int = 0

    def hear(self, now: float, data: bytes) -> None:
        """Some audio has come."""
        stalled_s = self.player.stalled_s
        self.player.feed(now, data)
        if self.player.stalled_s > stalled_s:
            sample = len(self.pcm) // BYTES_PER_SAMPLE
            self.stalls.append((sample, self.player.stalled_s - stalled_s))
        self.pcm += data

    def note(self, event: dict[str, Any]) -> None:
        """Take what an event says about the words."""
        if event["type"] == "audio.start":
            self.unit_start_ms = event["start_ms"]
        for word in event.get("words", ()):
            start_ms, end_ms = (self.unit_start_ms + word[key] for key in ("start_ms", "end_ms"))
            self.words.append(Word(start_ms, end_ms, word["start_char"], word["end_char"]))


@asynccontextmanager
async def session(port: int) -> AsyncIterator[ClientConnection]:
    """A session of the server on this machine, configured."""
    address = f"ws://127.0.0.1:{port}/v1/audio/speech/stream"
    async with connect_socket(address, max_size=None, compression=None) as socket:
        await say(socket, "session.config", **_CONFIG)
        yield socket


async def say(socket: ClientConnection, kind: str, **fields: object) -> None:
    await socket.send(json.dumps({"type": kind} | fields))


async def first_audio(socket: ClientConnection) -> float:
    """When the next audio came."""
    while not isinstance(await socket.recv(), bytes):
        pass
    return time.perf_counter()


async def until(socket: ClientConnection, kind: str) -> float:
    """When an event of that type came."""
    while True:
        message = await socket.recv()
        if isinstance(message, str) and json.loads(message)["type"] == kind:
            return time.perf_counter()


async def talk(socket: ClientConnection, text: str) -> Talk:
    """Write one utterance and hear it to its end. Raises ``RuntimeError`` if it fails."""
    heard = Talk(Player(time.perf_counter()))
    writing = asyncio.create_task(_write(socket, text))
    while True:
        message = await socket.recv()
        if isinstance(message, bytes):
            heard.hear(time.perf_counter(), message)
            continue
        event = json.loads(message)
        if event["type"] == "error":
            writing.cancel()
            raise RuntimeError(f"the server refused {text[:40]!r}: {event['message']}")
        heard.note(event)
        if event["type"] == "session.done":
            break
    await writing
    return heard


async def _write(socket: ClientConnection, text: str) -> None:
    """Token by token at the pace of a language model."""
    clock = asyncio.get_running_loop()
    due = clock.time()
    for start in range(0, len(text), _CHARS_PER_TOKEN):
        due += 1 / _TOKENS_PER_S
        await asyncio.sleep(max(0.0, due - clock.time()))
        await say(socket, "input.text", text=text[start : start + _CHARS_PER_TOKEN])
    await say(socket, "input.done")
