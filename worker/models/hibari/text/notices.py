"""Counts of what a text lost on its way to speech, told once per kind."""

from collections import Counter
from collections.abc import Iterable

# They travel in one HTTP header: a few short ASCII sentences.
MAX_NOTICES = 8


class Notices:
    """Tally of `(sentence before the count, singular, plural)` kinds."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()

    def add(self, verb: str, thing: str, count: int = 1) -> None:
        """Count `thing`, whose `{}` takes the plural s: "character{} of Han script"."""
        self._counts[verb, thing] += count

    def add_all(self, items: Iterable[tuple[str, str, int]]) -> None:
        for verb, thing, count in items:
            self.add(verb, thing, count)

    def sentences(self) -> tuple[str, ...]:
        """ASCII sentences, in the order of first occurrence, at most MAX_NOTICES."""
        told = [
            f"{verb} {count} {thing.format('' if count == 1 else 's')}"
            for (verb, thing), count in self._counts.items()
        ]
        if len(told) > MAX_NOTICES:
            told[MAX_NOTICES - 1 :] = ["changed or skipped more kinds of characters"]
        return tuple(told)
