"""The text of one request as the pieces that are said one after the other.

Pieces depend on the inputs and their order alone, never on when they came: a replay that feeds the
same inputs gets the same pieces.
"""

from __future__ import annotations

import re
import unicodedata
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from worker.models.hibari.text.draft import Span
from worker.models.hibari.text.sentences import Sentence, SentenceSplitter, forced_cut

# Sentence ends of scripts that put no space behind them.
_WIDE_STOP = re.compile(r"[。！？｡।॥]+[”’」』）]*")
# Letters that take as long to say as one such character. At 160 ms a letter: 640 ms for a digit or
# a sign of money, which are said as words ("seven", "dollars"); 480 ms for a letter of a wide
# script, which is a syllable of Chinese or Korean, and up to four morae of Japanese.
_LETTERS_PER_DIGIT, _LETTERS_PER_WIDE = 4, 3


def spoken_length(text: str) -> int:
    """How long a text is when it is said, in letters of an alphabet; never less than it is."""
    return sum(map(_num_letters, text))


def _num_letters(char: str) -> int:
    if char < "\x80":
        return _LETTERS_PER_DIGIT if char.isdigit() or char == "$" else 1
    category = unicodedata.category(char)
    if category[0] == "N" or category == "Sc":
        return _LETTERS_PER_DIGIT
    is_wide = category[0] == "L" and unicodedata.east_asian_width(char) in "WF"
    return _LETTERS_PER_WIDE if is_wide else 1


@dataclass(frozen=True, slots=True)
class TextPiece:
    """What is said at once, and its place in the request's text."""

    text: str
    span: Span


class PieceSource:
    """Sentences joined to pieces of a ``spoken_length`` up to ``max_chars``; longer ones are cut.

    ``max_chars`` of 4 and more: that is one digit.
    """

    def __init__(self, max_chars: int) -> None:
        self._max_chars = max_chars
        self._splitter = SentenceSplitter()
        self._open: TextPiece | None = None
        self._pieces: deque[TextPiece] = deque()

    @property
    def is_empty(self) -> bool:
        """Nothing is left of the inputs so far, not even the start of a sentence."""
        return not self._pieces and self._open is None and not self._splitter.has_text

    def feed(self, text: str, offset: int) -> None:
        """More text, at ``offset`` of the request's: the pieces that it fills can be taken."""
        if not self._splitter.has_text:
            self._splitter = SentenceSplitter(offset)
        self._put(self._splitter.feed(text))

    def close(self) -> None:
        """No more text is at hand: what is said already need not wait to be joined."""
        if self._open is not None:
            self._pieces.append(self._open)
            self._open = None

    def flush(self) -> None:
        """What is buffered is a sentence, although no end of one has come."""
        self._put(self._splitter.flush())
        self.close()

    def take(self) -> TextPiece | None:
        """The next piece, or None if there is none before more input."""
        return self._pieces.popleft() if self._pieces else None

    def _put(self, sentences: list[Sentence]) -> None:
        for part in (part for sentence in sentences for part in self._parts(sentence)):
            joined = self._open and _joined(self._open, part)
            if joined and spoken_length(joined.text) <= self._max_chars:
                self._open = joined
                continue
            self.close()
            # Parts without a letter or a digit have no sound.
            self._open = part if any(char.isalnum() for char in part.text) else None

    def _parts(self, sentence: Sentence) -> Iterator[TextPiece]:
        text, base, start = sentence.text, sentence.span.start, 0
        while start < len(text):
            limit = self._limit(text, start)
            end = _wide_end(text, start, limit)
            if end is None:
                end = limit if limit == len(text) else forced_cut(text, start, limit)
            part = text[start:end].strip()
            if part:
                first = base + start + text[start:end].index(part)
                yield TextPiece(part, Span(first, first + len(part)))
            start = end

    def _limit(self, text: str, start: int) -> int:
        """Behind the last character that fits into one piece with those from ``start`` on."""
        length = 0
        for index in range(start, len(text)):
            length += _num_letters(text[index])
            if length > self._max_chars:
                return max(index, start + 1)
        return len(text)


def _wide_end(text: str, start: int, limit: int) -> int | None:
    """Behind the first wide stop before ``limit``, if there is one and text goes on behind it."""
    stop = _WIDE_STOP.search(text, start, limit)
    return stop.end() if stop and stop.end() < len(text) else None


def _joined(first: TextPiece, second: TextPiece) -> TextPiece:
    is_wide = _WIDE_STOP.search(first.text[-2:]) is not None
    text = first.text + ("" if is_wide else " ") + second.text
    return TextPiece(text, Span(first.span.start, second.span.end))
