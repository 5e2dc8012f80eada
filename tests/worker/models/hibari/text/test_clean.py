"""Cleaning as a whole: any text is taken, origins are kept, work is linear."""

import subprocess
import sys
from itertools import pairwise

import pytest
from hypothesis import given, settings

from tests.worker.models.hibari.text.strategies import TEXTS
from worker.models.hibari.text.clean import BLOCK_CHARS, CleanText, clean_text
from worker.models.hibari.text.draft import Draft, Span
from worker.models.hibari.text.notices import MAX_NOTICES

_LONGEST_READING = 30  # " at least " and its like, per character


@settings(max_examples=400, deadline=None)
@given(TEXTS)
def test_any_text_is_taken_and_the_result_is_bounded(text: str) -> None:
    clean = clean_text(text)
    assert len(clean.text) <= _LONGEST_READING * len(text)
    assert clean.text == clean.text.strip()
    assert clean.speakable == any(map(str.isalnum, clean.text)) == bool(clean.text)
    clean.text.encode("utf-8")


@settings(max_examples=400, deadline=None)
@given(TEXTS)
def test_every_clean_character_has_an_origin(text: str) -> None:
    clean = clean_text(text)
    assert len(clean.starts) == len(clean.ends) == len(clean.text)
    assert all(0 <= a <= b <= len(text) for a, b in zip(clean.starts, clean.ends, strict=True))
    for origins in (clean.starts, clean.ends):
        assert all(a <= b for a, b in pairwise(origins))


@settings(max_examples=200, deadline=None)
@given(TEXTS)
def test_warnings_are_few_ascii_and_different(text: str) -> None:
    warnings = clean_text(text).warnings
    assert len(set(warnings)) == len(warnings) <= MAX_NOTICES
    assert all(w.isascii() and w.isprintable() for w in warnings)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "\n\n",
        "---",
        "...!?,;:",
        "😊",
        "世界",
        "\u200b\ufeff",
        "\ud800",
        '""',
        "{[]}",
        "***",
    ],
)
def test_text_without_words_is_unspeakable(text: str) -> None:
    clean = clean_text(text)
    assert not clean.speakable
    assert clean.text == ""
    assert clean.original_span(0, 0) == Span(0, 0)


PLAIN = [
    "The quick brown fox jumps over the lazy dog.",
    'He said, "Stop!" Then he left; nobody knew why.',
    "It was 5 p.m. in the U.S. when Dr. Smith (the surgeon) arrived.",
    "Well-known state-of-the-art work, isn't it?",
    "One.\nTwo.\n\nThree.",
]


@pytest.mark.parametrize("text", PLAIN)
def test_plain_english_is_left_alone(text: str) -> None:
    clean = clean_text(text)
    assert clean.text == text
    assert list(clean.starts) == list(range(len(text)))
    assert clean.warnings == ()


@pytest.mark.parametrize(
    ("text", "word", "original"),
    [
        ("Pay $5.50 now", "5 dollars and 50 cents", "$5.50"),
        ("see **bold** text", "bold", "bold"),
        ("the [link](http://x.y) here", "link", "link"),
        ("Hello 世界 friends", "friends", "friends"),
        ("a Москва b", "Moskva", "Москва"),
        ("wor\u200bld peace", "world", "wor\u200bld"),
        ("at www.x.com now", "x dot com", "www.x.com"),
        ("Tom &amp; Jerry", "Jerry", "Jerry"),
    ],
)
def test_a_clean_word_leads_back_to_its_original(text: str, word: str, original: str) -> None:
    clean = clean_text(text)
    at = clean.text.index(word)
    span = clean.original_span(at, at + len(word))
    assert text[span.start : span.end] == original


def test_a_long_text_is_read_as_its_parts() -> None:
    paragraph = "It was the best of times, it was the worst of times. Café №5 costs $3."
    num_paragraphs = 4 * BLOCK_CHARS // len(paragraph)
    clean = clean_text("\n\n".join([paragraph] * num_paragraphs))
    assert clean.text == "\n\n".join([clean_text(paragraph).text] * num_paragraphs)
    assert clean.original_span(len(clean.text) - 9, len(clean.text)).end == len(
        "\n\n".join([paragraph] * num_paragraphs)
    )


def test_a_long_text_without_a_space_is_still_cut() -> None:
    clean = clean_text("ab1世" * (2 * BLOCK_CHARS))
    assert clean.speakable
    assert clean.ends[-1] <= 8 * BLOCK_CHARS


def test_work_per_character_does_not_grow_with_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Characters handed to patterns: linear in the text, whatever the size."""
    scanned = 0
    plain_sub = Draft.sub

    def counting_sub(self: Draft, *args: object, **kwargs: object) -> None:
        nonlocal scanned
        scanned += len(self.text)
        plain_sub(self, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(Draft, "sub", counting_sub)

    def work(text: str) -> int:
        nonlocal scanned
        scanned = 0
        clean_text(text)
        return scanned

    for unit in ("word ", "a", "<", "[x](", "1,", "$5 ", "😊a"):
        once, twice = work(unit * 20_000), work(unit * 40_000)
        assert twice <= 2.2 * once


def test_cleaning_is_settled_for_ordinary_text() -> None:
    for text in (
        *PLAIN,
        "# Head\n- one\n- two",
        "café at example.com",
        "$5 & 10%",
        "“Hi”—she said",
    ):
        once = clean_text(text)
        assert clean_text(once.text).text == once.text


def test_the_callers_side_loads_no_model_library() -> None:
    program = (
        "import sys; from worker.models.hibari.text.clean import clean_text; clean_text('Привет');"
        "sys.exit(any(m in sys.modules for m in ('numpy', 'hibari', 'onnxruntime')))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_clean_text_is_immutable() -> None:
    clean = clean_text("x")
    with pytest.raises(AttributeError):
        clean.text = "y"  # type: ignore[misc]
    assert isinstance(clean, CleanText)
