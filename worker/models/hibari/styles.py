"""Instructions in English ("speak slowly, in a low, calm voice") to levels of rate, pitch and life.

The grammar, read word by word in one pass:

- **Style words** ask for levels from -2 to 2 (see ``style_words.py``). A word about one axis is
  direct ("slowly", "deep", "monotone"); a mood means several ("excited": livelier, faster, higher).
  What is said directly about an axis outweighs moods. Of two direct words in one direction the
  stronger holds, of opposite ones the later; moods add up.
- **Degree words** before a style word change it: "very" adds a level (up to 3), "slightly" or "a
  bit" makes it 1, "more" changes nothing, "less" asks for the opposite, slightly.
- **Negation** ("not", "don't", "without") before a style word asks for the opposite, slightly;
  "not too" and "not very" only cancel it, and so does what denies both ends ("neither fast nor
  slow"). Behind a word in the same direction it only moderates ("quick but not rushed").
- **Directions** ("high", "raise", "lower", "more", "less") apply to the next noun that names an
  axis ("high energy", "lower the speed", "less energy"), or to the one just named ("energy: high",
  "keep the pace low"); "high" and "low" alone are about pitch.
- Degree and negation last for three further words, and end at punctuation or with their style word.
- Every other word is ignored. Those that are not plain function words are told to the client.

Light: imported on the caller's side.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from worker.models.hibari.style_words import (
    AXES,
    AXIS_NOUNS,
    DEGREES,
    DIRECT,
    DIRECTIONS,
    FILLERS,
    LINKS,
    MOODS,
    NEGATIONS,
    OTHER_NOUNS,
    PHRASES,
    PITCH_DIRECTIONS,
)

MAX_LEVEL = 3
MAX_REPORTED, MAX_WORD_CHARS = 8, 24
"""Words that a client is told were ignored, and characters of each: the report goes in a header."""

_REACH = 3
"""Words over which a degree, a negation or a direction waits for what it is about."""
_LONGEST_PHRASE = max(len(phrase.split()) for phrase in PHRASES)
_TOKEN = re.compile(r"[^\W_]+(?:['’][^\W_]+)*|[.,;:!?()\n]")
_PUNCTUATION = frozenset(".,;:!?()\n")


@dataclass(frozen=True, slots=True)
class SpokenStyle:
    """Levels from -3 to 3, 0 being the voice's own; more is faster, higher, livelier."""

    rate: int = 0
    pitch: int = 0
    liveliness: int = 0
    ignored: tuple[str, ...] = ()
    """Words that meant nothing, once each, in their order, not more than are reported."""
    num_ignored: int = 0
    """How many different words meant nothing."""

    @property
    def warning(self) -> str | None:
        """What to tell the client of ignored words; in ASCII, not longer than a header allows."""
        if not self.ignored:
            return None
        words = ", ".join(self.ignored).encode("ascii", "backslashreplace").decode()
        more = self.num_ignored - len(self.ignored)
        return f"instructions: ignored {words}" + (f" and {more} more" if more else "")


def read_instructions(text: str) -> SpokenStyle:
    """The style that instructions ask for. Takes any text, in time linear in its length."""
    reader = _Reader()
    for word in _words(text):
        reader.read(word)
    return reader.style()


def _words(text: str) -> Iterator[str]:
    """Words in lower case, phrases of the lexicon as one; every mark of punctuation by itself."""
    waiting: list[str] = []
    for match in _TOKEN.finditer(text.lower().replace("’", "'")):
        waiting.append(match.group())
        if len(waiting) == _LONGEST_PHRASE:
            yield _take_phrase(waiting)
    while waiting:
        yield _take_phrase(waiting)


def _take_phrase(waiting: list[str]) -> str:
    for size in range(len(waiting), 1, -1):
        phrase = " ".join(waiting[:size])
        if phrase in PHRASES:
            del waiting[:size]
            return PHRASES[phrase]
    return waiting.pop(0)


@dataclass(slots=True)
class _Reader:
    """The state between two words."""

    direct: dict[str, int] = field(default_factory=dict)
    moods: dict[str, int] = field(default_factory=dict)
    ignored: dict[str, None] = field(default_factory=dict)
    num_ignored: int = 0
    seen: set[str] = field(default_factory=set)
    degree: int | None = None
    is_negated: bool = False
    direction: str | None = None
    topic: str | None = None
    """The axis that was just named."""
    denied: dict[str, int] = field(default_factory=dict)
    """What negated words about an axis have made of it last."""
    patience: int = 0

    def read(self, word: str) -> None:
        if word in _PUNCTUATION:
            self._settle()
            self.topic = self.topic if word == ":" else None
        elif word in NEGATIONS:
            self._wait(negated=True)
        elif word in DEGREES:
            self._wait(degree=DEGREES[word])
        elif word in DIRECTIONS:
            self._turn(word)
        elif word in AXIS_NOUNS:
            self._name_axis(AXIS_NOUNS[word])
        elif word in DIRECT:
            axis, level = DIRECT[word]
            self._apply({axis: level}, self.direct)
        elif word in MOODS:
            self._apply(dict(zip(AXES, MOODS[word], strict=True)), self.moods)
        else:
            self._pass_by(word)

    def style(self) -> SpokenStyle:
        self._settle()
        levels = {axis: self.direct.get(axis, self.moods.get(axis, 0)) for axis in AXES}
        bound = {axis: max(-MAX_LEVEL, min(MAX_LEVEL, level)) for axis, level in levels.items()}
        return SpokenStyle(**bound, ignored=tuple(self.ignored), num_ignored=self.num_ignored)

    def _wait(self, *, negated: bool = False, degree: int | None = None) -> None:
        self.patience = _REACH
        self.is_negated |= negated
        if degree is not None:
            self.degree = degree

    def _turn(self, word: str) -> None:
        """A direction waits for its noun; one that finds none is about pitch, if it can be."""
        self._settle_direction()
        self.direction = word
        self.patience = _REACH

    def _name_axis(self, axis: str) -> None:
        """A direction before it is about it; "less" is one, too; one behind it may be."""
        if self.direction is not None:
            level, self.direction = DIRECTIONS[self.direction], None
            self._apply({axis: level}, self.direct)
        elif self.degree == DEGREES["less"]:
            self._apply({axis: DIRECTIONS["more"]}, self.direct)
        else:
            self._grow_impatient()
            self.topic = axis

    def _pass_by(self, word: str) -> None:
        if word in OTHER_NOUNS:
            self.direction = None
        if word not in LINKS:
            self.topic = None
        self._grow_impatient()
        if word not in FILLERS and word not in self.seen:
            self.seen.add(word)
            self.num_ignored += 1
            if len(self.ignored) < MAX_REPORTED:
                self.ignored[word[:MAX_WORD_CHARS]] = None

    def _grow_impatient(self) -> None:
        self.patience -= 1
        if self.patience <= 0:
            self._settle()

    def _apply(self, levels: dict[str, int], asked: dict[str, int]) -> None:
        self._settle_direction()
        for axis, level in levels.items():
            changed, before = self._changed(level), asked.get(axis, 0)
            if asked is self.moods:
                asked[axis] = changed + before
            elif self._denies_both_ends(axis, changed):
                asked[axis] = 0
            elif self.is_negated and level * before > 0:
                asked[axis] = 1 if before > 0 else -1
            elif changed * before <= 0 or abs(changed) > abs(before):
                asked[axis] = changed
        self.topic = None
        self._forget()

    def _denies_both_ends(self, axis: str, changed: int) -> bool:
        """Whether this negation and the one before it on the axis leave its middle."""
        before = self.denied.pop(axis, 0)
        if self.is_negated:
            self.denied[axis] = changed
        return self.is_negated and changed * before < 0

    def _changed(self, level: int) -> int:
        """A level under the degree and the negation before it."""
        sign = (level > 0) - (level < 0)
        if self.is_negated:
            return 0 if self.degree is not None and self.degree > 0 else -sign
        if self.degree is None:
            return level
        return sign * (abs(level) + 1) if self.degree > 0 else sign * (1 + 2 * self.degree)

    def _settle_direction(self) -> None:
        if self.direction is None:
            return
        word, self.direction = self.direction, None
        topic, self.topic = self.topic, None
        if topic is not None or word in PITCH_DIRECTIONS:
            self._apply({topic or "pitch": DIRECTIONS[word]}, self.direct)

    def _settle(self) -> None:
        self._settle_direction()
        self._forget()

    def _forget(self) -> None:
        self.degree, self.is_negated, self.patience = None, False, 0
