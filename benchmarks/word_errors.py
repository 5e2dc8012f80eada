"""Word errors between what was to be said and what was heard."""

from __future__ import annotations

import re
from collections.abc import Sequence

_NOT_A_WORD = re.compile(r"[^a-z0-9$% ]+")


def words(text: str) -> list[str]:
    """The words of a text without case and punctuation; ``$45`` and ``75%`` are one word each."""
    # Marks inside a word vanish ("o'clock", "2,000"); between words they part them.
    joined = re.sub(r"(?<=\w)['’,.](?=\w)", "", text.lower())
    return _NOT_A_WORD.sub(" ", joined).split()


def num_errors(said: Sequence[str], heard: Sequence[str]) -> int:
    """The fewest words to insert, delete or replace (Levenshtein)."""
    row = list(range(len(heard) + 1))
    for num_said, word in enumerate(said, start=1):
        diagonal, row[0] = row[0], num_said
        for index, other in enumerate(heard, start=1):
            costs = (row[index] + 1, row[index - 1] + 1, diagonal + (word != other))
            diagonal, row[index] = row[index], min(costs)
    return row[-1]


def fewest_errors(spellings: Sequence[str], heard: str) -> tuple[int, int]:
    """Errors against the nearest of equally right spellings, and how many words that has."""
    heard_words = words(heard)
    said = [words(spelling) for spelling in spellings]
    counts = [(num_errors(one, heard_words), len(one)) for one in said]
    return min(counts, key=lambda count: count[0])
