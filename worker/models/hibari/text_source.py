"""The text of one request as phoneme chunks: at once for a whole text, piece by piece else.

Chunks depend on the inputs and their order alone, never on when they came: a replay that feeds the
same inputs gets the same chunks.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from worker.models.hibari.text.clean import CleanText, clean_text
from worker.models.hibari.text.draft import Span
from worker.models.hibari.text.phonemes import PhonemeChunk, Phonemizer
from worker.models.hibari.text.sentences import Sentence, SentenceSplitter, split_sentences

logger = logging.getLogger("voxloom.worker.models.hibari.text_source")


@dataclass(slots=True)
class Speaker:
    """How text is spoken. An update replaces it for the text that comes after."""

    speed: float
    british: bool
    model_path: str
    shape: dict[str, float]


@dataclass(frozen=True, slots=True)
class SpokenChunk:
    """Phonemes, who speaks them, and where their words are in the request's text.

    ``sentence`` is the place of the whole sentence there; ``ends_sentence``: it has no further
    chunk. ``warnings``: what was skipped or changed since the chunk before: words that could not be
    read, and all else in a text that came in pieces.
    """

    phonemes: PhonemeChunk
    speaker: Speaker
    locate: Callable[[Span], Span]
    sentence: Span
    ends_sentence: bool
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Piece:
    """A cleaned text that waits to be read; it starts at ``offset`` of the request's text.

    Reading begins at ``begin`` of the clean text, where a sentence starts.
    """

    clean: CleanText
    offset: int
    speaker: Speaker
    begin: int = 0


# A sentence, its piece, and the warnings of that piece and of those before it that had no sentence.
_Line: TypeAlias = tuple[Sentence, _Piece, tuple[str, ...]]


class TextSource:
    """``take`` gives the next chunk. Only ``take`` does the work of reading a sentence."""

    def __init__(self, phonemizers: dict[bool, Phonemizer], speaker: Speaker) -> None:
        self._phonemizers = phonemizers
        self._speaker = speaker
        self._splitter = SentenceSplitter()
        self._pieces: deque[_Piece] = deque()
        self._piece: _Piece | None = None
        self._sentences: Iterator[Sentence] = iter(())
        self._next_line: _Line | None = None
        self._chunks: Iterator[SpokenChunk] = iter(())
        self._next_chunk: SpokenChunk | None = None
        self._last_piece: _Piece | None = None  # that of the chunk taken last
        self._is_whole_text = False
        self._unread_warnings: tuple[str, ...] = ()
        self._unsaid_warnings: tuple[str, ...] = ()

    @property
    def is_exhausted(self) -> bool:
        """There is nothing to take before more input comes.

        A sentence that turns out to have no sound counts until it has been looked at.
        """
        return self._next_chunk is None and self._next_line is None

    @property
    def is_empty(self) -> bool:
        """Nothing is left of the inputs so far, not even the start of a sentence."""
        return self.is_exhausted and not self._splitter.has_text

    @property
    def resume_at(self) -> int | None:
        """Where another source could go on from here, if it could: at the start of a sentence.

        That is a place in the clean text of ``put_clean``, or in the text as it was fed.
        """
        if self._next_chunk is not None or self._unread_warnings or self._unsaid_warnings:
            return None
        if self._next_line is None:
            return self._splitter.offset if self._splitter.has_text else None
        sentence, piece, warnings = self._next_line
        if self._is_whole_text:
            return sentence.span.start
        # The warnings of a piece that had no sentence are told with the next one.
        is_start = piece is not self._last_piece and warnings == piece.clean.warnings
        return piece.offset if is_start else None

    @property
    def has_warnings(self) -> bool:
        """Warnings wait for a chunk that would tell them."""
        return bool(self._unread_warnings or self._unsaid_warnings)

    def take_warnings(self) -> tuple[str, ...]:
        """The warnings that no chunk has told: of a text that ends with what has no sound."""
        told = self._unsaid_warnings + self._unread_warnings
        self._unsaid_warnings = self._unread_warnings = ()
        return told

    def put_clean(self, clean: CleanText, begin: int = 0) -> None:
        """The whole text of a request, cleaned already, from ``begin`` on (see ``resume_at``)."""
        self._is_whole_text = True
        self._put(_Piece(clean, 0, self._speaker, begin))

    def feed(self, text: str, offset: int) -> None:
        """A piece as it was written, at ``offset`` of the request's text.

        The sentences that it completes can be taken.
        """
        if not self._splitter.has_text:
            self._splitter = SentenceSplitter(offset)
        self._put_sentences(self._splitter.feed(text))

    def flush(self) -> None:
        """What is buffered is a sentence, although no end of one has come."""
        self._put_sentences(self._splitter.flush())

    def update(self, speaker: Speaker) -> None:
        """The voice changes here: what is buffered was meant for the one before."""
        self.flush()
        self._speaker = speaker

    def take(self) -> SpokenChunk | None:
        """The next chunk, or None if there is none before more input."""
        chunk = self._next_chunk
        while chunk is None and self._next_line is not None:
            self._chunks = self._chunks_of(self._next_line)
            self._last_piece = self._next_line[1]
            self._next_line = self._read_line()
            chunk = next(self._chunks, None)
        self._next_chunk = next(self._chunks, None)
        return chunk

    def _put_sentences(self, sentences: list[Sentence]) -> None:
        for sentence in sentences:
            clean = clean_text(sentence.text)
            for warning in clean.warnings:
                logger.warning("in text that came in segments: %s", warning)
            self._put(_Piece(clean, sentence.span.start, self._speaker))

    def _put(self, piece: _Piece) -> None:
        self._pieces.append(piece)
        if self._next_line is None:
            self._next_line = self._read_line()

    def _read_line(self) -> _Line | None:
        while True:
            sentence = next(self._sentences, None)
            if sentence is not None and self._piece is not None:
                warnings, self._unread_warnings = self._unread_warnings, ()
                return sentence, self._piece, warnings
            if not self._pieces:
                return None
            self._piece = self._pieces.popleft()
            self._unread_warnings += self._piece.clean.warnings
            self._sentences = iter(split_sentences(self._piece.clean.text, self._piece.begin))

    def _chunks_of(self, line: _Line) -> Iterator[SpokenChunk]:
        sentence, piece, warnings = line

        def locate(span: Span) -> Span:
            original = piece.clean.original_span(span.start, span.end)
            return Span(original.start + piece.offset, original.end + piece.offset)

        phonemizer = self._phonemizers[piece.speaker.british]
        unread: list[str] = []
        # All of them at once: the first one costs the reading of the whole sentence anyway.
        chunks = list(phonemizer.chunks(sentence, unread.append))
        span = locate(sentence.span)
        self._unsaid_warnings += warnings + tuple(dict.fromkeys(unread))
        for number, phonemes in enumerate(chunks, 1):
            told, self._unsaid_warnings = self._unsaid_warnings, ()
            is_last = number == len(chunks)
            yield SpokenChunk(phonemes, piece.speaker, locate, span, is_last, told)
