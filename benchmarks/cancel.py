"""How soon a client that leaves in mid-stream frees its place. Seen from outside.

The server takes one request at a time. ``slot``: another client asks again and again; the figure
is the time from the disconnect until the first request that was not refused was sent. ``next``: a
second client is already waiting in the queue; the figure is the time from the disconnect until it
hears its first audio, which holds the stages' letting go and the time to first audio as well.
"""

from __future__ import annotations

import asyncio
import random
import time

from benchmarks.figures import Figure, Report
from benchmarks.options import Options, run_async
from benchmarks.quantiles import percentile
from benchmarks.server_process import running_server
from benchmarks.speech_client import SpeechConnection, connect
from benchmarks.texts import sentences

TARGET_MS = 50.0
# Long enough that it is still being made when its client leaves.
_NUM_WORDS = 100
_NUM_NEXT_WORDS = 5
_MAX_STAY_S = 0.08
_ENVIRON = {"VOXLOOM_ENGINE_MAX_RUNNING": "1"}


def run(options: Options) -> Report:
    """Both measures, the clients leaving at random moments after their first audio."""
    num = options.pick(200, 3)
    with running_server(
        options.pipeline, environ={**_ENVIRON, "VOXLOOM_ENGINE_MAX_WAITING": "0"}
    ) as server:
        slot_ms = run_async(_free_slots(server.port, num))
    with running_server(
        options.pipeline, environ={**_ENVIRON, "VOXLOOM_ENGINE_MAX_WAITING": "4"}
    ) as server:
        next_ms = run_async(_next_in_line(server.port, num))
    figures = [
        *_figures("disconnect to free slot", slot_ms, TARGET_MS),
        *_figures("disconnect to the next one's audio", next_ms, None),
    ]
    return Report("cancel", figures, {"slot_ms": slot_ms, "next_ms": next_ms})


def _figures(name: str, values_ms: list[float], target_ms: float | None) -> list[Figure]:
    return [
        Figure(
            f"{name}, p{percent}",
            percentile(values_ms, percent),
            "ms",
            target=target_ms,
            better="lower",
        )
        for percent in (50, 99)
    ]


class _Listener:
    """A client that has heard its first audio, or has been refused."""

    def __init__(self, connection: SpeechConnection, text: str) -> None:
        self.sent_at = time.perf_counter()
        self.heard_at: float | None = None
        self._connection = connection
        self._heard = asyncio.Event()
        self._answer = asyncio.create_task(connection.speak(text, on_audio=self._hear))

    def _hear(self, now: float, _: bytes) -> None:
        if self.heard_at is None:
            self.heard_at = now
            self._heard.set()

    async def is_served(self) -> bool:
        """Wait for the first audio, or for the end of an answer without any."""
        heard = asyncio.create_task(self._heard.wait())
        await asyncio.wait({heard, self._answer}, return_when=asyncio.FIRST_COMPLETED)
        heard.cancel()
        return self.heard_at is not None

    async def leave(self) -> float:
        """Drop the connection; when that was."""
        left_at = time.perf_counter()
        self._connection.abort()
        await self._answer
        return left_at


async def _free_slots(port: int, num: int) -> list[float]:
    rng = random.Random(0)
    texts = iter(sentences(0, num + 1, _NUM_WORDS))
    holder = _Listener(await connect(port), next(texts))
    assert await holder.is_served(), "an idle server refused a request"
    waits_ms: list[float] = []
    for text in texts:
        connection = await connect(port)
        await asyncio.sleep(rng.random() * _MAX_STAY_S)
        left_at = await holder.leave()
        holder = await _first_admitted(connection, text)
        waits_ms.append((holder.sent_at - left_at) * 1000)
    await holder.leave()
    return waits_ms


async def _first_admitted(connection: SpeechConnection, text: str) -> _Listener:
    """Ask until the answer is not a refusal; refusals keep the connection."""
    while True:
        listener = _Listener(connection, text)
        if await listener.is_served():
            return listener


async def _next_in_line(port: int, num: int) -> list[float]:
    rng = random.Random(1)
    waits_ms: list[float] = []
    texts = sentences(1, num, _NUM_WORDS)
    shorts = sentences(2, num, _NUM_NEXT_WORDS)
    for first, second in zip(texts, shorts, strict=True):
        wait_ms = None
        while wait_ms is None:
            # Drawn anew: one that is too long here would be so for ever.
            stay_s = rng.random() * _MAX_STAY_S
            wait_ms = await _wait_in_line_ms(port, first, second, stay_s)
        waits_ms.append(wait_ms)
    return waits_ms


async def _wait_in_line_ms(port: int, first: str, second: str, stay_s: float) -> float | None:
    """From the holder's leaving to the next one's audio; None if the holder's text ended before."""
    holder = _Listener(await connect(port), first)
    assert await holder.is_served(), "an idle server refused a request"
    waiting = _Listener(await connect(port), second)
    await asyncio.sleep(stay_s)
    is_in_time = waiting.heard_at is None
    left_at = await holder.leave()
    assert await waiting.is_served(), "the one in line was refused"
    assert waiting.heard_at is not None
    await waiting.leave()
    return (waiting.heard_at - left_at) * 1000 if is_in_time else None
