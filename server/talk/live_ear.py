"""A live stream of a realtime session: its audio to the engine, and what the engine heard in it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeAlias

import numpy as np

from engine.outputs import OmniInteractionPrompt
from server.audio.decoder import SAMPLE_RATE, Samples
from server.audio.live_resampler import LiveResampler
from server.engine_port import EnginePort
from server.sessions.realtime.effects import ListeningOptions
from server.talk.session_orders import hints_of

# The stage that finds turns.
_LISTENING = 0
_MS_SAMPLES = SAMPLE_RATE // 1000
# What the engine looks at in one step: other live streams wait no longer than for that.
_MAX_PIECE_SAMPLES = 2 * SAMPLE_RATE
# Converting this much takes under a millisecond; more is done on a thread.
_INLINE_BYTES = 48_000


@dataclass(frozen=True, slots=True)
class SpeechBegan:
    start_ms: int


@dataclass(frozen=True, slots=True)
class SpeechEnded:
    end_ms: int


@dataclass(frozen=True, slots=True)
class WordsFound:
    """What was said in the turn that began at ``start_ms``."""

    start_ms: int
    text: str


EarNews: TypeAlias = SpeechBegan | SpeechEnded | WordsFound


class LiveEar:
    """One live stream. ``start_ms``: where its audio begins, on the session's clock.

    Without ``writing_stage`` turns are found, and nothing tells what they say.
    """

    def __init__(
        self, engine: EnginePort, writing_stage: int | None, request_id: str, start_ms: int
    ) -> None:
        self._engine = engine
        self._writing_stage = writing_stage
        self._request_id = request_id
        self._num_sent = start_ms * _MS_SAMPLES
        self._rate = SAMPLE_RATE
        self._resampler: LiveResampler | None = None
        self._event_ids = count(1)

    async def open(self, options: ListeningOptions) -> None:
        """Raises ``VoxloomError``, also when the engine has no room for it."""
        last = _LISTENING if self._writing_stage is None else self._writing_stage
        await self._engine.add_request_async(
            self._request_id,
            self._prompt(options),
            final_stage_id=last,
            final_output_stage_ids=sorted({_LISTENING, last}),
            resumable=True,
            ticket=self._engine.admit(),
        )

    async def hear(self, pcm: bytes, rate: int) -> None:
        """More audio, s16le at ``rate`` Hz."""
        if len(pcm) > _INLINE_BYTES:
            audio = await asyncio.to_thread(self._convert, pcm, rate)
        else:
            audio = self._convert(pcm, rate)
        for first in range(0, len(audio), _MAX_PIECE_SAMPLES):
            piece = audio[first : first + _MAX_PIECE_SAMPLES]
            segment = {"audio": piece, "first_sample": self._num_sent}
            self._num_sent += len(piece)
            await self._engine.add_streaming_update_async(self._request_id, segment)

    async def change(self, options: ListeningOptions) -> None:
        """Go on with other options."""
        event_id = f"ear{next(self._event_ids)}"
        interaction = OmniInteractionPrompt(event_id, "update", self._prompt(options))
        refusal = await self._engine.submit_interaction_async(self._request_id, interaction)
        if refusal is not None:
            refusal.check()

    async def close(self) -> None:
        """Hear no more; turns that are over are still written down."""
        await self._engine.add_streaming_update_async(
            self._request_id, {"clear": True}, resumable=False
        )

    async def abort(self) -> None:
        await self._engine.abort([self._request_id])

    async def news(self) -> AsyncGenerator[EarNews, None]:
        """What was heard, to the stream's end. Raises ``VoxloomError``."""
        async with aclosing(self._engine.outputs(self._request_id)) as outputs:
            async for output in outputs:
                if output.interaction is not None:
                    output.interaction.check()
                heard = output.payload.get("heard")
                if heard is not None and heard["kind"] == "started":
                    yield SpeechBegan(_to_ms(heard["first_sample"]))
                elif heard is not None and heard["kind"] == "stopped":
                    yield SpeechEnded(_to_ms(heard["last_sample"]))
                written = output.payload.get("transcript")
                if written is not None:
                    yield WordsFound(_to_ms(written["first_sample"]), written["text"])

    def _prompt(self, options: ListeningOptions) -> dict[str, Any]:
        """Guesses, and what is known of the words, are for who writes them down."""
        prompt = {"mode": "live", "detection": _detection(options)}
        if self._writing_stage is None:
            return prompt
        return prompt | {"guesses": True} | hints_of(options.hints)

    def _convert(self, pcm: bytes, rate: int) -> Samples:
        """float32 [samples] at 16 kHz."""
        if self._resampler is None or rate != self._rate:
            self._rate = rate
            self._resampler = LiveResampler(rate)
        return self._resampler.feed(np.frombuffer(pcm, "<i2").astype(np.float32) / 32768.0)


def _detection(options: ListeningOptions) -> dict[str, Any]:
    rules = options.rules
    return {
        "threshold": rules.threshold,
        "prefix_padding_ms": rules.prefix_padding_ms,
        "silence_duration_ms": rules.silence_duration_ms,
    }


def _to_ms(sample: int) -> int:
    return sample // _MS_SAMPLES
