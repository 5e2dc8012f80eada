"""A piece of text under rewriting that remembers where each of its characters came from."""

import re
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

Edit = tuple[int, int, str]
Replacement = str | Callable[[re.Match[str]], str | None]


@dataclass(frozen=True, slots=True)
class Span:
    """Half-open range of `str` indices, `start <= end`."""

    start: int
    end: int


class Draft:
    """Text with one origin span per character.

    `starts[i]` and `ends[i]` bound the part of the source that character `i` stands for. Both
    arrays never decrease, so any range of the draft maps to one range of the source.
    """

    __slots__ = ("ends", "starts", "text")

    def __init__(self, text: str, base: int = 0) -> None:
        self.text = text
        self.starts = array("I", range(base, base + len(text)))
        self.ends = array("I", range(base + 1, base + len(text) + 1))

    def edit(self, edits: Iterable[Edit]) -> None:
        """Apply replacements `(start, end, new text)`, ascending and disjoint, in one pass."""
        parts: list[str] = []
        starts, ends = array("I"), array("I")
        pos = 0
        for start, end, new in edits:
            self._copy(pos, start, parts, starts, ends)
            self._place(start, end, new, parts, starts, ends)
            pos = end
        if parts or pos:
            self._copy(pos, len(self.text), parts, starts, ends)
            self.text, self.starts, self.ends = "".join(parts), starts, ends

    def _copy(
        self, start: int, end: int, parts: list[str], starts: "array[int]", ends: "array[int]"
    ) -> None:
        parts.append(self.text[start:end])
        starts.extend(self.starts[start:end])
        ends.extend(self.ends[start:end])

    def _place(
        self,
        start: int,
        end: int,
        new: str,
        parts: list[str],
        starts: "array[int]",
        ends: "array[int]",
    ) -> None:
        if not new:
            return
        parts.append(new)
        first, last = self._origin(start, end)
        starts.extend(array("I", (first,)) * len(new))
        ends.extend(array("I", (last,)) * len(new))

    def _origin(self, start: int, end: int) -> tuple[int, int]:
        """Source range of `[start, end)`; an insertion belongs to the character before it."""
        if start < end:
            return self.starts[start], self.ends[end - 1]
        if start > 0:
            return self.starts[start - 1], self.ends[start - 1]
        return (self.starts[0], self.starts[0]) if self.starts else (0, 0)

    def sub(
        self, pattern: re.Pattern[str], replacement: Replacement, marks: Iterable[str] = ()
    ) -> None:
        """Replace each match. A function that answers None leaves its match alone.

        `marks`: strings one of which every match holds; without any in the text, no search.
        """
        if self._may_match(marks):
            self.edit(_substitutions(pattern.finditer(self.text), replacement))

    def keep(
        self,
        pattern: re.Pattern[str],
        group: int = 1,
        after: str = "",
        marks: Iterable[str] = (),
    ) -> None:
        """Replace each match by one of its groups, whose characters keep their origins."""
        if self._may_match(marks):
            self.edit(_strippings(pattern.finditer(self.text), group, after))

    def _may_match(self, marks: Iterable[str]) -> bool:
        return not marks or any(mark in self.text for mark in marks)


def _substitutions(matches: Iterator[re.Match[str]], replacement: Replacement) -> Iterator[Edit]:
    for match in matches:
        new = replacement if isinstance(replacement, str) else replacement(match)
        if new is not None and new != match.group():  # an unchanged character keeps its own origin
            yield match.start(), match.end(), new


def _strippings(matches: Iterator[re.Match[str]], group: int, after: str) -> Iterator[Edit]:
    for match in matches:
        yield match.start(), match.start(group), ""
        yield match.end(group), match.end(), after
