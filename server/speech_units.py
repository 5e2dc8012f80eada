"""From the engine's outputs to the coded pieces of an utterance's units."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from typing import Protocol

from engine.errors import InvalidRequestError
from engine.outputs import OmniRequestOutput
from server.encoding import AsyncEncoder, EncoderPool
from server.metrics import ListenerMeter
from server.sessions.spoken import WordTime, read_words
from server.sessions.utterance import AudioPiece
from server.speech_plan import SIZED_FORMATS, SessionPlan


class PieceCoder(Protocol):
    """Turns the outputs of one utterance into pieces. ``discard`` at the end."""

    def warn(self, warnings: Iterable[str]) -> None:
        """What was skipped or changed in the text."""

    def take(self, output: OmniRequestOutput) -> AsyncGenerator[AudioPiece, None]:
        """The pieces that an output with audio completes."""

    def finish(self) -> AsyncGenerator[AudioPiece, None]:
        """Those that are left when all outputs have come."""

    def discard(self) -> None:
        """Nobody listens any more."""


class UnitCoder:
    """Codes the units of one utterance, each as a file of its own. ``discard`` at the end."""

    def __init__(self, encoders: EncoderPool, plan: SessionPlan, max_complete_s: float) -> None:
        self._encoders = encoders
        self._plan = plan
        self._max_held_samples = round(max_complete_s * plan.source_rate)
        self._encoder: AsyncEncoder | None = None
        self._held: list[memoryview] = []
        self._words: list[WordTime] = []
        self._warnings: list[str] = []
        self._num_held_samples = 0
        self._span: tuple[int, int] | None = None

    def warn(self, warnings: Iterable[str]) -> None:
        """What was skipped or changed in the text; the next piece tells it."""
        self._warnings += warnings

    async def take(self, output: OmniRequestOutput) -> AsyncGenerator[AudioPiece, None]:
        """The pieces that an output with audio completes."""
        sentence: Sequence[int] | None = None
        if self._plan.granularity != "none":
            sentence = output.payload.get("sentence")
        span = (int(sentence[0]), int(sentence[1])) if sentence else (0, 0)
        if self._span is not None and span[0] != self._span[0]:
            yield await self._end()  # its last chunk did not say so
        assert output.audio is not None
        piece = await self._add(output, output.audio.cast("B"), span)
        if piece is not None:
            yield piece
        if sentence and sentence[2]:
            yield await self._end()

    async def finish(self) -> AsyncGenerator[AudioPiece, None]:
        """The end of the unit that is open, if one is; and the last warnings."""
        if self._span is not None:
            yield await self._end()
        if told := self._take_warnings():
            yield AudioPiece(b"", 0, [], (0, 0), False, False, told)

    def discard(self) -> None:
        if self._encoder is not None:
            self._encoder.discard()
            self._encoder = None

    async def _add(
        self, output: OmniRequestOutput, pcm: memoryview, span: tuple[int, int]
    ) -> AudioPiece | None:
        """The piece that an output makes; None if the whole unit is collected first."""
        opens = self._span is None
        self._span = span
        words = read_words(output.payload.get("words", ()))
        self.warn(output.payload.get("warnings", ()))
        if not self._plan.stream_audio:
            self._hold(pcm, words, output.num_samples)
            return None
        if self._encoder is None:
            self._encoder = self._encoders.open(self._plan)
        data = await self._encoder.encode(pcm)
        told = self._take_warnings()
        return AudioPiece(data, output.num_samples, words, span, opens, False, told)

    def _hold(self, pcm: memoryview, words: list[WordTime], num_samples: int) -> None:
        self._held.append(pcm)
        self._words += words
        self._num_held_samples += num_samples
        if self._num_held_samples > self._max_held_samples:
            raise InvalidRequestError(
                "text makes a unit that is too long for one file; set stream_audio, or "
                "split_granularity to sentence",
                param="stream_audio",
            )

    async def _end(self) -> AudioPiece:
        assert self._span is not None
        span, self._span = self._span, None
        if not self._plan.stream_audio:
            return await self._whole(span)
        assert self._encoder is not None
        data = await self._encoder.close()
        self.discard()
        return AudioPiece(data, 0, [], span, False, True, self._take_warnings())

    async def _whole(self, span: tuple[int, int]) -> AudioPiece:
        """The unit's file, whose length is known."""
        num_samples = self._num_held_samples
        is_sized = self._plan.fmt in SIZED_FORMATS
        self._encoder = self._encoders.open(self._plan, num_samples if is_sized else None)
        parts = [await self._encoder.encode(pcm) for pcm in self._held]
        parts.append(await self._encoder.close())
        self.discard()
        words, self._words, self._held, self._num_held_samples = self._words, [], [], 0
        told = self._take_warnings()
        return AudioPiece(b"".join(parts), num_samples, words, span, True, True, told)

    def _take_warnings(self) -> tuple[str, ...]:
        told, self._warnings = tuple(self._warnings), []
        return told


async def coded_pieces(
    outputs: AsyncIterator[OmniRequestOutput], coder: PieceCoder, meter: ListenerMeter
) -> AsyncGenerator[AudioPiece, None]:
    """What is to be sent of an utterance, in order. Raises what the engine raises."""
    try:
        async for output in outputs:
            coder.warn(output.warnings)
            if not output.num_samples:
                # Of a text that ends with what has no sound.
                coder.warn(output.payload.get("warnings", ()))
            if output.audio is None or not output.num_samples:
                continue
            meter.add_chunk(output.num_samples)
            async for piece in coder.take(output):
                yield piece
        async for piece in coder.finish():
            yield piece
        meter.finish()
    finally:
        coder.discard()
