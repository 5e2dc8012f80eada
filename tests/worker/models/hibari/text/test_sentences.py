"""Sentences: the same from a whole text and from pieces, bounded, none lost."""

import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.worker.models.hibari.text.strategies import PROSE, TEXTS
from worker.models.hibari.text.sentences import (
    MAX_SENTENCE_CHARS,
    Sentence,
    SentenceSplitter,
    split_sentences,
)

SPLITS = [
    ("One. Two.", ["One.", "Two."]),
    ("Dr. Smith lives on Main St. in St. Louis.", ["Dr. Smith lives on Main St. in St. Louis."]),
    ("We met on Main St. The bus came.", ["We met on Main St.", "The bus came."]),
    ("At 5 p.m. Then he slept.", ["At 5 p.m.", "Then he slept."]),
    ("The U.S. Army came.", ["The U.S. Army came."]),
    ("In the U.S. They came.", ["In the U.S.", "They came."]),
    ("J. K. Rowling wrote.", ["J. K. Rowling wrote."]),
    ("See e.g. The Times.", ["See e.g. The Times."]),
    ('"Stop!" he said. "Go."', ['"Stop!" he said.', '"Go."']),
    ('He said "Stop." Then left.', ['He said "Stop."', "Then left."]),
    ("Really? Yes! (Of course.) Good.", ["Really?", "Yes!", "(Of course.)", "Good."]),
    ("It costs 3.5 dollars. Ok.", ["It costs 3.5 dollars.", "Ok."]),
    ("No. 5 is alive. So.", ["No. 5 is alive.", "So."]),
    ("Wait… what? no.", ["Wait… what? no."]),
    ("Wait… What?", ["Wait…", "What?"]),
    ("2. Check the logs. Done.", ["2. Check the logs.", "Done."]),
    ("I have 3. You have 4.", ["I have 3.", "You have 4."]),
    ("One\nTwo\n\nThree", ["One", "Two", "Three"]),
    ("Mr. A. Then", ["Mr. A.", "Then"]),
    ("example.com is fine", ["example.com is fine"]),
    ("", []),
    (" \n ", []),
]


@pytest.mark.parametrize(("text", "expected"), SPLITS)
def test_sentences_end_where_a_reader_would_pause(text: str, expected: list[str]) -> None:
    assert [s.text for s in split_sentences(text)] == expected


def test_a_paragraph_ends_at_an_empty_line_only() -> None:
    flags = [s.paragraph_end for s in split_sentences("One.\nTwo. Three.\n\nFour.")]
    assert flags == [False, False, True, False]


def _in_pieces(text: str, cuts: list[int]) -> list[Sentence]:
    splitter = SentenceSplitter()
    found: list[Sentence] = []
    for start, end in pairwise([0, *sorted(min(c, len(text)) for c in cuts), len(text)]):
        found += splitter.feed(text[start:end])
    return found + splitter.flush()


LONG = st.builds(lambda a, n, b: a + "word, " * n + b, PROSE, st.integers(0, 250), PROSE)


@settings(max_examples=300, deadline=None)
@given(st.one_of(PROSE, LONG, TEXTS), st.lists(st.integers(0, 2000), max_size=12))
def test_pieces_of_a_text_give_the_same_sentences(text: str, cuts: list[int]) -> None:
    assert _in_pieces(text, cuts) == list(split_sentences(text))


@settings(max_examples=100, deadline=None)
@given(PROSE)
def test_characters_one_by_one_give_the_same_sentences(text: str) -> None:
    assert _in_pieces(text, list(range(len(text)))) == list(split_sentences(text))


@settings(max_examples=300, deadline=None)
@given(st.one_of(PROSE, LONG, TEXTS))
def test_sentences_cover_all_but_white_space(text: str) -> None:
    sentences = list(split_sentences(text))
    assert "".join(re.sub(r"\s", "", s.text) for s in sentences) == re.sub(r"\s", "", text)
    for sentence in sentences:
        assert text[sentence.span.start : sentence.span.end] == sentence.text
        assert 0 < len(sentence.text) <= MAX_SENTENCE_CHARS


def test_the_first_sentence_comes_before_the_rest_is_read() -> None:
    splitter = SentenceSplitter()
    assert [s.text for s in splitter.feed("First one. S")] == ["First one."]
    assert splitter.feed("econd") == []
    assert [s.text for s in splitter.flush()] == ["Second"]


def test_a_text_without_stops_is_cut_at_words() -> None:
    sentences = list(split_sentences("word " * 2000))
    assert max(len(s.text) for s in sentences) <= MAX_SENTENCE_CHARS
    assert {w for s in sentences for w in s.text.split()} == {"word"}


def test_a_clause_is_preferred_for_a_cut() -> None:
    text = "word " * 90 + "clause, " + "word " * 90
    assert next(split_sentences(text)).text.endswith("clause,")


def test_a_splitter_is_fresh_after_a_flush_and_keeps_counting() -> None:
    splitter = SentenceSplitter()
    splitter.feed("One")
    splitter.flush()
    (second,) = [*splitter.feed("Two."), *splitter.flush()]
    assert (second.text, second.span.start) == ("Two.", 3)


@given(st.one_of(TEXTS, PROSE))
@settings(deadline=None)
def test_from_any_sentence_on_the_rest_is_the_same(text: str) -> None:
    """What a replay relies on that starts at a sentence."""
    sentences = list(split_sentences(text))
    for number, sentence in enumerate(sentences):
        assert list(split_sentences(text, sentence.span.start)) == sentences[number:]
