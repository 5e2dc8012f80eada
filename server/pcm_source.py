"""The audio of one request, as it comes from the engine."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence

from engine.errors import InvalidRequestError, StageFailedError
from engine.outputs import OmniRequestOutput
from server.metrics import ListenerMeter
from server.sessions.spoken import WordTime, read_words

_BYTES_PER_SAMPLE = 2


class PcmSource:
    """A request's audio, its warnings, words and sentences, and its meter.

    ``warnings``: those of the request are there with the first piece, each of the text with the
    piece that it belongs to, or behind the last. A word comes with or before the piece in which it
    begins. ``sentences``: first and last character of each that has begun.
    """

    def __init__(self, outputs: AsyncIterator[OmniRequestOutput], meter: ListenerMeter) -> None:
        self._outputs = outputs
        self.meter = meter
        self.warnings: tuple[str, ...] = ()
        self.sentences: list[tuple[int, int]] = []
        self._new_words: list[WordTime] = []

    def take_words(self) -> list[WordTime]:
        """The words that came since this was asked last."""
        words, self._new_words = self._new_words, []
        return words

    async def pieces(self) -> AsyncGenerator[memoryview, None]:
        """Bytes of int16 LE mono, whole samples.

        Raises what the engine raises, and ``StageFailedError`` if there was no audio at all: an
        empty file would look like a success.
        """
        async for output in self._outputs:
            self._warn(output.warnings)
            self._warn(output.payload.get("warnings", ()))
            self._new_words += read_words(output.payload.get("words", ()))
            self._note_sentence(output.payload.get("sentence"))
            if output.audio is not None and output.num_samples:
                self.meter.add_chunk(output.num_samples)
                yield output.audio if output.audio.format == "B" else output.audio.cast("B")
        self.meter.finish()
        if not self.meter.num_samples:
            raise StageFailedError("the model made no audio for this text")

    def _warn(self, warnings: Iterable[str]) -> None:
        """Each is told once: there are few kinds, whatever the text."""
        new = [warning for warning in warnings if warning not in self.warnings]
        self.warnings += tuple(dict.fromkeys(new))

    def _note_sentence(self, sentence: Sequence[int] | None) -> None:
        if sentence is None:
            return
        span = (int(sentence[0]), int(sentence[1]))
        if span not in self.sentences[-1:]:
            self.sentences.append(span)


async def limited(
    pcm: AsyncIterator[memoryview], sample_rate: int, max_s: float
) -> AsyncGenerator[memoryview, None]:
    """``pcm``, refused once it is longer than ``max_s`` seconds."""
    max_bytes = round(max_s * sample_rate) * _BYTES_PER_SAMPLE
    num_bytes = 0
    async for piece in pcm:
        num_bytes += len(piece)
        if num_bytes > max_bytes:
            raise InvalidRequestError(
                f"input makes more than {max_s:g} s of audio, the most that is sent as one "
                "complete file; leave out 'stream: false' to have it streamed",
                param="stream",
            )
        yield piece


async def chained(
    held: list[memoryview], rest: AsyncIterator[memoryview] | None = None
) -> AsyncGenerator[memoryview, None]:
    """What is already there, then the rest."""
    for piece in held:
        yield piece
    if rest is not None:
        async for piece in rest:
            yield piece
