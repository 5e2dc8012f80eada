"""When each character of a text sounds, from the times of its words.

A word's characters share its time evenly; those between two words, such as spaces and commas, share
the time between them. So the times are monotone, and every character has one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from server.sessions.spoken import TextLog, WordTime

# The spaces behind a sentence that are looked at; those beyond belong to what follows.
_MAX_SPACES = 64


@dataclass(slots=True)
class CharTimes:
    """Characters in order; ``starts`` and ``ends`` in samples of the request's audio.

    ``origin`` is where the characters before these ended.
    """

    origin: int
    chars: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)

    def add(self, text: str, first_sample: int, last_sample: int) -> None:
        """Spread ``text`` evenly over the samples."""
        num_chars, num_samples = len(text), last_sample - first_sample
        bounds = [first_sample + num_samples * at // num_chars for at in range(num_chars + 1)]
        self.chars += text
        self.starts += bounds[:-1]
        self.ends += bounds[1:]


@dataclass(frozen=True, slots=True)
class _SentenceEnd:
    last_char: int
    last_sample: int


class CharClock:
    """Takes in what the engine says of a request's audio, and gives out its characters' times.

    ``pads``: a sentence without a space behind it gets one that lasts no time, since clients tell
    words apart by spaces. What waits is bounded by the words of the text that was not yet heard.
    """

    def __init__(self, text: TextLog, *, pads: bool) -> None:
        self._text = text
        self._pads = pads
        self._words: deque[WordTime] = deque()
        self._sentence_ends: deque[_SentenceEnd] = deque()
        self._num_told = 0
        self._told_until = 0
        self._has_words = False
        self.num_samples = 0

    def add(
        self, words: Iterable[WordTime], num_samples: int, sentence: tuple[int, int, bool] | None
    ) -> None:
        """A piece of audio of ``num_samples``, and the words that came with it.

        ``sentence``: the characters of the sentence it is of, and whether that ends with it.
        """
        self._words += words
        self._has_words |= sentence is not None or bool(self._words)
        self.num_samples += num_samples
        if sentence is not None and sentence[2]:
            self._sentence_ends.append(_SentenceEnd(sentence[1], self.num_samples))

    def take(self, *, begun_only: bool) -> CharTimes | None:
        """The characters that are new: of all known words, or only of those that have begun.

        White space behind a sentence goes with it. None if there are no new ones.
        """
        times = CharTimes(self._told_until)
        while (word := self._next_word()) is not None or self._sentence_ends:
            if word is None:
                self._tell_sentence_end(times, self._sentence_ends.popleft())
            elif begun_only and word.first_sample >= self.num_samples:
                break
            else:
                self._tell_word(times, self._words.popleft())
        return times if times.chars else None

    def take_rest(self) -> CharTimes | None:
        """All characters that are left, when all audio has come; None if no words are known."""
        times = self.take(begun_only=False) or CharTimes(self._told_until)
        if self._has_words:
            self._tell(times, self._text.num_chars, self.num_samples)
        return times if times.chars else None

    def _next_word(self) -> WordTime | None:
        """The next word, if no sentence ends before it."""
        if not self._words:
            return None
        ends = self._sentence_ends
        return None if ends and ends[0].last_char <= self._words[0].first_char else self._words[0]

    def _tell_word(self, times: CharTimes, word: WordTime) -> None:
        self._tell(times, word.first_char, word.first_sample)
        self._tell(times, word.last_char, word.last_sample)

    def _tell_sentence_end(self, times: CharTimes, end: _SentenceEnd) -> None:
        last_char = max(end.last_char, self._num_told)
        rest = self._text.slice(last_char, last_char + _MAX_SPACES)
        num_spaces = len(rest) - len(rest.lstrip())
        self._tell(times, last_char + num_spaces, end.last_sample)
        if self._pads and not num_spaces:
            times.add(" ", self._told_until, self._told_until)

    def _tell(self, times: CharTimes, last_char: int, last_sample: int) -> None:
        """Characters up to ``last_char`` last until ``last_sample``."""
        text = self._text.slice(self._num_told, last_char)
        until = max(self._told_until, last_sample)
        if text:
            times.add(text, self._told_until, until)
        self._num_told += len(text)
        self._told_until = until


def in_ms(times: CharTimes, sample_rate: int, origin: int) -> Iterator[tuple[str, int, int]]:
    """Each character with its start and duration in ms, counted from the sample ``origin``.

    Rounded so that the durations add up.
    """
    zero = round(origin * 1000 / sample_rate)
    for char, start, end in zip(times.chars, times.starts, times.ends, strict=True):
        start_ms, end_ms = (round(at * 1000 / sample_rate) for at in (start, end))
        yield char, start_ms - zero, end_ms - start_ms
