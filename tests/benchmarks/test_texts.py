from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.texts import sentence, sentences


@given(st.integers(5, 250), st.integers(0, 2**32))
def test_a_sentence_has_exactly_the_words_asked_for_and_one_full_stop(
    num_words: int, seed: int
) -> None:
    text = sentence(random.Random(seed), num_words)
    assert len(text.split()) == num_words
    assert text[0].isupper()
    assert text.endswith(".")
    assert text.count(".") == 1


def test_fewer_than_five_words_are_refused() -> None:
    with pytest.raises(ValueError, match="num_words must be at least 5, got 4"):
        sentence(random.Random(0), 4)


def test_sentences_differ_among_themselves_and_repeat_with_their_seed() -> None:
    texts = sentences(3, 200, 20)
    assert len(set(texts)) == 200
    assert texts == sentences(3, 200, 20)
    assert texts != sentences(4, 200, 20)
