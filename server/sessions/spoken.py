"""What has been said of a text: the text itself, its words, and where each of them sounds."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

# Words remembered to tell how far a listener has heard: half an hour of speech, more than a player
# ever lags behind.
_MAX_WORDS = 5000


class TextLog:
    """A text that comes in pieces."""

    def __init__(self) -> None:
        self._whole = ""
        self._pieces: list[str] = []
        self.num_chars = 0

    def append(self, piece: str) -> None:
        self._pieces.append(piece)
        self.num_chars += len(piece)

    def slice(self, first: int, last: int) -> str:
        """Characters ``first`` up to ``last``. The pieces are joined here, not at each of them."""
        if self._pieces:
            self._whole = "".join((self._whole, *self._pieces))
            self._pieces.clear()
        return self._whole[first:last]


@dataclass(frozen=True, slots=True)
class WordTime:
    """A word: its place in the text, and its samples in the audio. Ends are exclusive."""

    first_sample: int
    last_sample: int
    first_char: int
    last_char: int


def read_words(payload: Iterable[Sequence[int]]) -> list[WordTime]:
    """The words that the engine sent along with a piece of audio."""
    return [WordTime(*map(int, word)) for word in payload]


def read_sentence(payload: Sequence[Any] | None) -> tuple[int, int, bool] | None:
    """The characters of the sentence that a piece of audio is of; whether it ends there."""
    return None if not payload else (int(payload[0]), int(payload[1]), bool(payload[2]))


def describe_word(word: WordTime, text: str, sample_rate: int, origin: int = 0) -> dict[str, Any]:
    """A word as clients get it; ``text`` is its own, ``origin`` the sample that is 0 ms."""
    return {
        "word": text,
        "start_ms": to_ms(word.first_sample - origin, sample_rate),
        "end_ms": to_ms(word.last_sample - origin, sample_rate),
        "start_char": word.first_char,
        "end_char": word.last_char,
    }


def to_ms(num_samples: int, sample_rate: int) -> int:
    return round(num_samples * 1000 / sample_rate)


class WordLedger:
    """The words whose audio was made, to tell how far a listener got."""

    def __init__(self) -> None:
        self._words: deque[WordTime] = deque(maxlen=_MAX_WORDS)

    def add(self, words: Iterable[WordTime]) -> None:
        self._words.extend(words)

    def chars_until(self, sample: int) -> int:
        """Characters of the text up to the last word that has wholly sounded before ``sample``."""
        for word in reversed(self._words):
            if word.last_sample <= sample:
                return word.last_char
        return 0
