"""Words no dictionary holds: codes, hashes, identifiers, stretched and endless words."""

import re

from worker.models.hibari.text.draft import Draft
from worker.models.hibari.text.links import LETTER_A
from worker.models.hibari.text.notices import Notices

# The longest English word in common dictionaries has 45 letters.
MAX_WORD_CHARS = 45
# As much of an endless word as one unknown word's reading covers.
SHORTENED_WORD_CHARS = 24
# A code up to this length is spelled out in full; a longer one is a hash or worse.
MAX_CODE_CHARS = 24
SHORTENED_CODE_CHARS = 8

_STRETCHED = re.compile(r"([A-Za-z])\1{3,}+")
_REPEATED = re.compile(r"([A-Za-z]{2,4}?)\1{4,}+")
_CODE = re.compile(r"(?<![\w+/=-])(?=[A-Za-z+/=_-]*\d)[\w+/=-]{6,}+", re.ASCII)
_LONG = re.compile(rf"[A-Za-z]{{{MAX_WORD_CHARS + 1},}}+")
_ALTERNATION = re.compile(r"[A-Za-z](?=\d)|\d(?=[A-Za-z])")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")
_NAME_JOINT = re.compile(r"(?<=[A-Za-z0-9])_+(?=[A-Za-z0-9])")


def read_words(draft: Draft, notices: Notices) -> None:
    """Shorten or spell the words that would come out as babble."""
    draft.sub(_CODE, lambda m: _read_code(m.group(), notices))
    draft.sub(_STRETCHED, lambda m: _unstretch(m, 2, notices))
    draft.sub(_REPEATED, lambda m: _unstretch(m, 3, notices))
    draft.sub(_LONG, lambda m: _shorten(m.group(), notices))
    draft.sub(_NAME_JOINT, " ", "_")


def _unstretch(match: re.Match[str], times: int, notices: Notices) -> str:
    if len(match.group()) > MAX_WORD_CHARS:
        notices.add("shortened", "long word{}")
    return match.group(1) * times


def _read_code(code: str, notices: Notices) -> str | None:
    """Spell what mixes letters and digits; None for a word, a number or a name of words."""
    mixed = len(_ALTERNATION.findall(code[:200])) >= 3
    if len(code) > MAX_CODE_CHARS and not (mixed and _is_opaque(code)):
        return None
    if not mixed or (any(c in "_+/=" for c in code) and len(code) <= MAX_CODE_CHARS):
        return None
    if len(code) > MAX_CODE_CHARS and code.count("-") not in (3, 4):
        notices.add("shortened", "long code{}")
        code = code[:SHORTENED_CODE_CHARS]
    return _spell(code[:40])


def _is_opaque(code: str) -> bool:
    """Few separators for its length: no list of words with a number in it."""
    return sum(c in "_-/" for c in code[:200]) * 8 < len(code[:200]) or code.count("-") == 4


def _spell(code: str) -> str:
    """Characters one by one, with a pause at each separator."""
    parts = [p for p in re.split(r"[^A-Za-z0-9]+", code) if p]
    return ", ".join(" ".join(LETTER_A if c in "aA" else c.upper() for c in p) for p in parts)


def _shorten(word: str, notices: Notices) -> str:
    pieces = _HUMP.split(word[:2000])
    if (
        len(word) <= 2000
        and all(len(p) <= MAX_WORD_CHARS for p in pieces)
        and len(pieces) * 3 < len(word)
    ):
        return " ".join(pieces)
    notices.add("shortened", "long word{}")
    return word[:SHORTENED_WORD_CHARS]
