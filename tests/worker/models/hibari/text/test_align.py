"""Words of a rewriting lead back to the words they came from."""

from hypothesis import given
from hypothesis import strategies as st

from worker.models.hibari.text.align import align_words

WORDS = st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=12)


def test_equal_texts_pair_up() -> None:
    assert align_words(["a", "b"], ["a", "b"]) == [(0, 1), (1, 2)]


def test_a_word_read_as_several_covers_them_all() -> None:
    before = ["on", "2024-03-05", "we"]
    assert align_words(before, ["on", "March", "fifth,", "2024", "we"]) == [
        (0, 1), (1, 2), (1, 2), (1, 2), (2, 3),
    ]  # fmt: skip


def test_several_words_read_as_one_are_covered_by_it() -> None:
    assert align_words(["10", "km", "away"], ["ten-kilometers", "away"]) == [(0, 2), (2, 3)]


def test_an_added_word_belongs_to_its_left_neighbour() -> None:
    assert align_words(["a", "b"], ["a", "x", "b"]) == [(0, 1), (0, 1), (1, 2)]


def test_endless_texts_become_one_stretch() -> None:
    assert set(align_words(["a"] * 300, ["b"] * 301)) == {(0, 300)}


@given(WORDS.filter(bool), WORDS)
def test_ranges_ascend_and_are_never_empty(before: list[str], after: list[str]) -> None:
    ranges = align_words(before, after)
    assert len(ranges) == len(after)
    assert all(0 <= first < last <= len(before) for first, last in ranges)
    assert ranges == sorted(ranges)
