from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.word_errors import fewest_errors, num_errors, words

some_words = st.lists(st.sampled_from("abcd"), max_size=8)


def test_case_and_punctuation_are_no_words() -> None:
    assert words("It's Dr. O'Brien's, at nine o'clock!") == [
        "its", "dr", "obriens", "at", "nine", "oclock",
    ]  # fmt: skip


def test_a_number_is_one_word_with_its_sign() -> None:
    assert words("$2,000 is 75% - or so") == ["$2000", "is", "75%", "or", "so"]


@pytest.mark.parametrize(
    ("said", "heard", "expected"),
    [("a b c", "a b c", 0), ("a b c", "a c", 1), ("a b", "a x b", 1), ("a b", "b a", 2),
     ("a b c", "", 3), ("", "a", 1), ("a b c", "a x c", 1)],
)  # fmt: skip
def test_insertions_deletions_and_replacements_count_one(
    said: str, heard: str, expected: int
) -> None:
    assert num_errors(said.split(), heard.split()) == expected


@given(some_words, some_words, some_words)
def test_the_errors_are_a_distance(a: list[str], b: list[str], c: list[str]) -> None:
    assert num_errors(a, a) == 0
    assert num_errors(a, b) == num_errors(b, a)
    assert num_errors(a, c) <= num_errors(a, b) + num_errors(b, c)


def test_the_nearest_spelling_counts() -> None:
    spellings = ("There are 24 students.", "There are twenty four students.")
    assert fewest_errors(spellings, "there are twenty four students") == (0, 5)
    assert fewest_errors(spellings, "there are 24 student") == (1, 4)
