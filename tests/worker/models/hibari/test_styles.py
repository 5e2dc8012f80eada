"""Instructions become levels by a grammar of words, whatever else is in them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.models.hibari.style_words import (
    AXIS_NOUNS,
    DEGREES,
    DIRECT,
    DIRECTIONS,
    FILLERS,
    MOODS,
    NEGATIONS,
    PHRASES,
)
from worker.models.hibari.styles import MAX_REPORTED, MAX_WORD_CHARS, read_instructions

KNOWN = [DEGREES, NEGATIONS, DIRECTIONS, AXIS_NOUNS, DIRECT, MOODS, FILLERS]


@pytest.mark.parametrize(
    ("text", "levels"),
    [
        ("speak slowly, in a low, calm voice", (-2, -2, -1)),
        ("excited, fast", (2, 1, 2)),
        ("very slow", (-3, 0, 0)),
        ("VERY VERY slow!", (-3, 0, 0)),
        ("a bit slower", (-1, 0, 0)),
        ("Speak a little bit faster and in a much deeper voice.", (1, -3, 0)),
        ("more slowly", (-2, 0, 0)),
        ("less monotone", (0, 0, 1)),
        ("don't speak fast", (-1, 0, 0)),
        ("do not sound excited", (-1, -1, -1)),
        ("not too fast", (0, 0, 0)),
        ("not very high", (0, 0, 0)),
        ("no rush; take your time", (-1, 0, 0)),
        ("high", (0, 2, 0)),
        ("in a high, monotone voice", (0, 2, -2)),
        ("high-pitched", (0, 2, 0)),
        ("high energy", (0, 0, 2)),
        ("low energy", (0, 0, -2)),
        ("lower the speed", (-2, 0, 0)),
        ("raise your pitch slightly", (0, 2, 0)),
        ("slightly raise the pitch", (0, 1, 0)),
        ("speak as fast as possible", (2, 0, 0)),
        ("Tone: serious. Pacing: slow and deliberate", (-2, -1, -1)),
        ("excited, but slow", (-2, 1, 2)),
        ("fast. No, slow", (-2, 0, 0)),
        ("fast at first, then slow", (-2, 0, 0)),
        ("less energy", (0, 0, -1)),
        ("with a lot of energy", (0, 0, 2)),
        ("more expression, more slowly", (-2, 0, 2)),
        ("Energy: high. Pace: low.", (-2, 0, 2)),
        ("Energy level: high, deep voice", (0, -2, 2)),
        ("with energy, in a low voice", (0, -2, 0)),
        ("with energy in a low voice", (0, -2, 0)),
        ("pace slow, high voice", (-2, 2, 0)),
        ("more pitch variation", (0, 0, 2)),
        ("high volume", (0, 0, 0)),
        ("neither fast nor slow", (0, 0, 0)),
        ("not slow, not fast", (0, 0, 0)),
        ("not fast, and not too high", (-1, 0, 0)),
        ("quick but not rushed", (1, 0, 0)),
        ("slow, but not too slow", (-1, 0, 0)),
        ("not only fast but also high", (2, 2, 0)),
        ("", (0, 0, 0)),
        ("Speak like a pirate.", (0, 0, 0)),
        ("very", (0, 0, 0)),
        ("lower", (0, -2, 0)),
        ("don’t hurry", (-1, 0, 0)),
    ],
)
def test_words_ask_for_levels(text: str, levels: tuple[int, int, int]) -> None:
    style = read_instructions(text)
    assert (style.rate, style.pitch, style.liveliness) == levels


def test_a_degree_does_not_reach_beyond_punctuation() -> None:
    assert read_instructions("very, slow").rate == -2


def test_a_degree_does_not_reach_far() -> None:
    assert read_instructions("very the way that you speak slow").rate == -2


def test_unknown_words_are_told_once_each() -> None:
    warning = read_instructions("Speak like a pirate, a PIRATE of the seas.").warning
    assert warning == "instructions: ignored pirate, seas"


def test_what_is_known_is_not_told() -> None:
    assert read_instructions("Please speak very slowly, in a high voice.").warning is None
    assert read_instructions("slow-paced, more than usual; no need to hurry").warning is None


def test_what_cannot_be_turned_up_is_told() -> None:
    assert read_instructions("increase the volume").warning == "instructions: ignored volume"


def test_a_report_is_bounded_and_ascii() -> None:
    text = " ".join(f"ü{number}{'x' * 1000}" for number in range(1000))
    style = read_instructions(text)
    assert style.warning is not None
    assert style.warning.isascii()
    assert len(style.warning) < 40 + MAX_REPORTED * (MAX_WORD_CHARS + 10)
    assert "and 992 more" in style.warning


def test_a_hundred_kilobytes_are_read_to_their_end() -> None:
    assert read_instructions("slightly " * 12_000 + "fast").rate == 1
    assert read_instructions("a" * 100_000 + " slow").rate == -2
    assert read_instructions("," * 100_000 + " slow").rate == -2


def test_each_word_has_one_meaning() -> None:
    words = [word for known in KNOWN for word in known]
    assert sorted(words) == sorted(set(words))


def test_every_phrase_becomes_a_word_that_is_known() -> None:
    known = {word for each in KNOWN for word in each}
    assert {word for word in PHRASES.values() if word not in known} == set()


@given(st.text() | st.lists(st.sampled_from(sorted({w for k in KNOWN for w in k}))).map(" ".join))
def test_any_text_gives_levels_in_range(text: str) -> None:
    style = read_instructions(text)
    assert all(-3 <= level <= 3 for level in (style.rate, style.pitch, style.liveliness))
    assert len(style.ignored) <= MAX_REPORTED
