"""Sentences of an exact number of words, as many different ones as wanted."""

from __future__ import annotations

import random

_ADJECTIVES = (
    "quiet", "green", "curious", "heavy", "narrow", "gentle", "bright", "hollow", "patient",
    "silver", "broken", "distant", "warm", "clever", "wooden", "hungry", "early", "polite",
)  # fmt: skip
_NOUNS = (
    "river", "teacher", "window", "market", "engine", "garden", "letter", "doctor", "harbour",
    "painter", "bridge", "farmer", "village", "lantern", "kitchen", "sailor", "orchard", "cousin",
    "mountain", "library", "blanket", "captain", "meadow", "station",
)  # fmt: skip
_VERBS = (
    "watched", "carried", "followed", "painted", "crossed", "ignored", "reached", "repaired",
    "described", "noticed", "remembered", "visited", "measured", "admired", "avoided", "opened",
)  # fmt: skip
_PREPOSITIONS = ("behind", "beside", "above", "near", "beyond", "under", "across", "past")
_JOINTS = (", and then", ", so that", ", but later", ", even though", ", just as", ", long after")
# By their number of words.
_LEADS = (
    "",
    "Today",
    "This morning",
    "Late that evening",
    "At the same time",
    "Not very long after midnight",
    "On the first day of spring",
    "Without so much as a single word",
    "As far as anyone could tell that day",
    "In a small town on the coast of Maine",
    "After what had seemed like a long and hard winter",
)
_CLAUSE_WORDS, _JOINT_WORDS, _SHORT_WORDS = 9, 2, 5


def sentence(rng: random.Random, num_words: int) -> str:
    """One sentence of ``num_words`` words. Raises ``ValueError`` below 5."""
    if num_words < _SHORT_WORDS:
        raise ValueError(f"num_words must be at least {_SHORT_WORDS}, got {num_words}")
    num_more, num_lead = divmod(num_words - _CLAUSE_WORDS, _CLAUSE_WORDS + _JOINT_WORDS)
    if num_words < _CLAUSE_WORDS:
        body, num_lead = _short_clause(rng), num_words - _SHORT_WORDS
    else:
        body = _clause(rng) + "".join(
            f"{rng.choice(_JOINTS)} {_clause(rng)}" for _ in range(num_more)
        )
    lead = _LEADS[num_lead]
    text = f"{lead}, {body}" if lead else body
    return text[0].upper() + text[1:] + "."


def sentences(seed: int, num_texts: int, num_words: int) -> list[str]:
    """``num_texts`` different sentences of ``num_words`` words; equal for equal seeds."""
    rng = random.Random(seed)
    found: dict[str, None] = {}
    while len(found) < num_texts:
        found[sentence(rng, num_words)] = None
    return list(found)


def _short_clause(rng: random.Random) -> str:
    subject, other = rng.sample(_NOUNS, 2)
    return f"the {subject} {rng.choice(_VERBS)} the {other}"


def _clause(rng: random.Random) -> str:
    subject, other, place = rng.sample(_NOUNS, 3)
    return (
        f"the {rng.choice(_ADJECTIVES)} {subject} {rng.choice(_VERBS)} the {other} "
        f"{rng.choice(_PREPOSITIONS)} the {place}"
    )
