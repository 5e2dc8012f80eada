"""All of Unicode down to what an English reader can say.

After this step a text holds ASCII, the dashes – and —, the ellipsis, •, °, currency signs, vulgar
fractions, superscript digits, line feeds and a few accented English words; nothing else.
"""

import re
import unicodedata
from functools import lru_cache

from anyascii import anyascii

from worker.models.hibari.text.draft import Draft
from worker.models.hibari.text.notices import Notices
from worker.models.hibari.text.symbols import (
    ACCENTED_WORDS,
    CURRENCIES,
    FRACTIONS,
    GREEK_NAMES,
    GREEK_UNITS,
    PUNCTUATION,
    SUBSCRIPTS,
    SUPERSCRIPTS,
    WORDS,
)

Tally = tuple[str, str, int]

# A whole word with at least one character outside printable ASCII. The look-behind gives each
# word one attempt and the possessive repeats never go back: linear.
_UNUSUAL = re.compile(r"(?<![A-Za-z])(?:[A-Za-z]*+[^\n\x20-\x7e]++)++[A-Za-z]*+")

# Alphabets whose letters have one Latin reading each. The others either need a dictionary (Han),
# leave vowels out (Arabic, Hebrew, most of India's) or both: an English voice would babble.
_TRANSLITERATED = frozenset(("CYRILLIC", "GREEK", "ARMENIAN", "GEORGIAN", "HANGUL"))
_SCRIPT_NAMES = {"CJK": "Han", "HIRAGANA": "Japanese", "KATAKANA": "Japanese"}
_KEPT = {c: c for c in (*CURRENCIES, *FRACTIONS, *SUPERSCRIPTS, "°", "–", "—", "…", "•")}
_FIXED = {**WORDS, **PUNCTUATION, **SUBSCRIPTS, **_KEPT}
_CONTROLS = {"\t": " ", "\r": "\n", "\x0b": "\n", "\x0c": "\n", "\x85": "\n"}


def read_characters(draft: Draft, notices: Notices) -> None:
    """Rewrite `draft` in place; count what was transliterated or skipped."""

    def replace(match: re.Match[str]) -> str:
        word = match.group()
        new, tallies = _read_word(word) if len(word) > 40 else _read_known_word(word)
        notices.add_all(tallies)
        return new

    draft.sub(_UNUSUAL, replace)


def _read_word(word: str) -> tuple[str, tuple[Tally, ...]]:
    word = unicodedata.normalize("NFC", word)
    if word.lower() in ACCENTED_WORDS:
        return word, ()
    if (unit := word.replace("µ", "μ")) in GREEK_UNITS:
        return f" {GREEK_UNITS[unit]}", ()
    if len(word) == 1 and word.lower() in GREEK_NAMES:
        return GREEK_NAMES[word.lower()], ()
    out: list[str] = []
    tallies: dict[tuple[str, str], int] = {}
    for char in word:
        new, tally = (char, None) if " " <= char <= "~" else _read_character(char)
        out.append(new)
        if tally:
            tallies[tally] = tallies.get(tally, 0) + 1
    return "".join(out), tuple((verb, thing, n) for (verb, thing), n in tallies.items())


_read_known_word = lru_cache(maxsize=8192)(_read_word)


@lru_cache(maxsize=8192)
def _read_character(char: str) -> tuple[str, tuple[str, str] | None]:
    """What to say for one character outside printable ASCII, and what to tell about it."""
    fixed = _FIXED.get(char, _CONTROLS.get(char))
    if fixed is not None:
        return fixed, None
    category = unicodedata.category(char)
    if category == "Nd":
        return str(unicodedata.decimal(char)), None
    if category[0] == "Z":
        return ("\n" if category in ("Zl", "Zp") else " "), None
    if category in ("Cc", "Cf") or category[0] == "M":
        return "", None
    if category[0] == "C" or char == "\ufffd":
        return "", ("skipped", "unreadable character{}")
    plain = unicodedata.normalize("NFKC", char)
    if plain != char and plain.isascii():
        return plain, None
    return _read_letter(char) if category[0] in "LN" else _read_mark(char, category)


def _read_letter(char: str) -> tuple[str, tuple[str, str] | None]:
    script = unicodedata.name(char, "UNKNOWN").split()[0].split("-")[0]
    if script in ("LATIN", "MODIFIER", "ROMAN", "SCRIPT", "FULLWIDTH", "FEMININE", "MASCULINE"):
        return _ascii_letters(char), None
    if script in _TRANSLITERATED:
        name = script.title()
        latin = _ascii_letters(char)
        latin = latin.lower() if script == "HANGUL" else latin
        return latin, ("transliterated", f"character{{}} of {name} script")
    name = _SCRIPT_NAMES.get(script, script.title())
    return " ", ("skipped", f"character{{}} of {name} script")


def _read_mark(char: str, category: str) -> tuple[str, tuple[str, str] | None]:
    if category == "Sk":  # skin tones and spacing accents belong to a neighbour
        return "", None
    if category[0] == "P":
        return " ", None
    return " ", ("skipped", "emoji" if category == "So" else "symbol{}")


def _ascii_letters(char: str) -> str:
    return "".join(c for c in anyascii(char) if c.isalnum() or c in "' ")
