"""How much of an answer's text had sounded at a moment, where its pipeline tells, and elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

# A moment in an answer's sound, in ms, and how many characters of its text have sounded by then.
Mark: TypeAlias = tuple[float, int]

# Models that speak for themselves tell no times of words. 150 words a minute, of six characters
# with the space, are unhurried English speech.
_CHARS_PER_MS = 150 * 6 / 60_000
# From here on Unicode has Chinese, Japanese and Korean, whose characters are syllables: each takes
# about as long as three of ours.
_FIRST_SYLLABLE, _SYLLABLE_CHARS = "\u2e80", 3


@dataclass(slots=True)
class SpokenText:
    """What an assistant item says, how much sound of it was sent, and where its words end.

    ``is_whole``: all of its text and sound has come.
    """

    text: str = ""
    audio_ms: float = 0.0
    marks: list[Mark] = field(default_factory=list)
    is_whole: bool = False

    def chars_until(self, at_ms: float) -> int:
        """How many characters had sounded; without ``marks`` an estimate, in whole words."""
        if self.marks:
            return max((chars for ms, chars in self.marks if ms <= at_ms), default=0)
        if not self.is_whole:
            return self._whole_words(at_ms * _CHARS_PER_MS)
        if not self.audio_ms:
            return 0
        if at_ms >= self.audio_ms:
            return len(self.text)
        return self._whole_words(at_ms / self.audio_ms * sum(map(_length, self.text)))

    def _whole_words(self, budget: float) -> int:
        """Characters of the words that are no longer than ``budget`` together."""
        sounded = 0
        for index, char in enumerate(self.text):
            budget -= _length(char)
            if budget < 0:
                return sounded
            if _ends_word(char, self.text[index + 1 : index + 2]):
                sounded = index + 1
        return len(self.text)


def _length(char: str) -> int:
    return _SYLLABLE_CHARS if char >= _FIRST_SYLLABLE else 1


def _ends_word(char: str, following: str) -> bool:
    return char >= _FIRST_SYLLABLE or following.isspace() or following >= _FIRST_SYLLABLE
