"""From a recording to its text: feeds the engine window by window, and reads what it writes down.

The engine's first stage finds speech in a window and says where the next one is to begin; its
second stage recognises. A window is sent when the one before it has been looked at, and when the
recogniser is not far behind, so a recording of any length takes the memory of some windows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from engine.outputs import OmniRequestOutput
from server.audio.decoder import SAMPLE_RATE, Samples
from server.engine_port import EnginePort

# What the first stage looks at: Whisper hears 30 s at once, in frames of 32 ms.
WINDOW_SAMPLES = 30 * SAMPLE_RATE // 512 * 512
# How far the recogniser may be behind what has been sent: two windows wait while one is recognised.
_MAX_AHEAD_SAMPLES = 3 * WINDOW_SAMPLES
_HEARING_STAGE, _WRITING_STAGE = 0, 1


class Reader(Protocol):
    """A recording, read in order."""

    async def read(self, num_samples: int) -> Samples: ...


@dataclass(frozen=True, slots=True)
class Passage:
    """What one chunk of speech was recognised as; see ``worker.models.whisper.stage``."""

    language: str
    language_name: str
    segments: list[dict[str, Any]]


def recording_prompt(prompt: dict[str, Any]) -> dict[str, Any]:
    """The engine's prompt for a recording of which ``prompt`` tells."""
    return {"mode": "recording"} | prompt


class WindowFeed:
    """Which window to send when. No I/O: samples in, windows out.

    ``num_samples`` is the length of what has been read.
    """

    def __init__(self) -> None:
        self._held = np.zeros(0, np.float32)
        self._first = 0
        self._is_whole = False
        self._is_looked_at = True
        # Chunks that are being recognised, by their last sample.
        self._pending: deque[int] = deque()
        self.has_sent_last = False

    @property
    def num_samples(self) -> int:
        return self._first + len(self._held)

    @property
    def duration_s(self) -> float:
        return self.num_samples / SAMPLE_RATE

    @property
    def num_missing(self) -> int:
        """Samples to read before the next window can be sent; 0 if none is to be sent now."""
        is_due = self._is_looked_at and not self.has_sent_last and not self._is_far_ahead
        return WINDOW_SAMPLES + 1 - len(self._held) if is_due and not self._is_whole else 0

    def take_window(self) -> tuple[int, Samples, bool] | None:
        """The next window if it is due: its first sample, its audio, whether it is the last."""
        if not self._is_looked_at or self.has_sent_last or self._is_far_ahead:
            return None
        # One more sample than a window is read, to know whether anything comes behind it.
        is_last = self._is_whole and len(self._held) <= WINDOW_SAMPLES
        self._is_looked_at, self.has_sent_last = False, is_last
        return self._first, self._held[:WINDOW_SAMPLES], is_last

    def add(self, audio: Samples, num_asked: int) -> None:
        """Samples that were read; fewer than asked for are the last."""
        self._held = np.concatenate([self._held, audio])
        self._is_whole = len(audio) < num_asked

    def chunk_found(self, last_sample: int) -> None:
        """A chunk of speech is on its way to the recogniser."""
        self._pending.append(last_sample)

    def chunk_recognised(self) -> None:
        self._pending.popleft()

    def looked_at(self, next_sample: int) -> None:
        """The window has been looked at; the next one begins at ``next_sample``."""
        self._is_looked_at = True
        if not self.has_sent_last:
            self._held = self._held[next_sample - self._first :]
            self._first = next_sample

    @property
    def _is_far_ahead(self) -> bool:
        return bool(self._pending) and self._first - self._pending[0] > _MAX_AHEAD_SAMPLES


class Transcription:
    """One recording on its way through the engine."""

    def __init__(self, engine: EnginePort, request_id: str, reader: Reader) -> None:
        self._engine = engine
        self._request_id = request_id
        self._reader = reader
        self._feed = WindowFeed()

    @property
    def duration_s(self) -> float:
        """Of the recording, once it has been read to its end."""
        return self._feed.duration_s

    async def passages(
        self, prompt: dict[str, Any], ticket: Any, deadline: float | None
    ) -> AsyncGenerator[Passage, None]:
        """The recording's passages in order; closing the generator aborts the request.

        Raises ``VoxloomError``; about the file before the engine is asked for anything.
        """
        await self._read_window()
        await self._engine.add_request_async(
            self._request_id,
            recording_prompt(prompt),
            final_stage_id=_WRITING_STAGE,
            final_output_stage_ids=[_HEARING_STAGE, _WRITING_STAGE],
            resumable=True,
            deadline=deadline,
            ticket=ticket,
        )
        try:
            await self._send_window()
            async with aclosing(self._engine.outputs(self._request_id)) as outputs:
                async for output in outputs:
                    passage = self._take(output)
                    if passage is not None:
                        yield passage
                    await self._read_window()
                    await self._send_window()
        finally:
            # Harmless if it has ended.
            await self._engine.abort([self._request_id])

    def _take(self, output: OmniRequestOutput) -> Passage | None:
        heard = output.payload.get("heard")
        if heard is not None:
            if heard["speech"] is not None:
                self._feed.chunk_found(heard["last_sample"])
            if "next_sample" in heard:
                self._feed.looked_at(heard["next_sample"])
        written = output.payload.get("transcript")
        if written is None:
            return None
        self._feed.chunk_recognised()
        return Passage(written["language"], written["language_name"], written["segments"])

    async def _read_window(self) -> None:
        num_missing = self._feed.num_missing
        if num_missing > 0:
            self._feed.add(await self._reader.read(num_missing), num_missing)

    async def _send_window(self) -> None:
        window = self._feed.take_window()
        if window is not None:
            first, audio, is_last = window
            await self._engine.add_streaming_update_async(
                self._request_id, {"audio": audio, "first_sample": first}, resumable=not is_last
            )
