"""Editing keeps, for each character, the part of the source it stands for."""

import re

from hypothesis import given
from hypothesis import strategies as st

from worker.models.hibari.text.draft import Draft


def _origins(draft: Draft) -> list[tuple[str, int, int]]:
    return list(zip(draft.text, draft.starts, draft.ends, strict=True))


def test_a_replacement_stands_for_all_it_replaced() -> None:
    draft = Draft("ab12c", base=100)
    draft.sub(re.compile(r"\d+"), "xyz")
    assert draft.text == "abxyzc"
    assert _origins(draft)[2:5] == [("x", 102, 104), ("y", 102, 104), ("z", 102, 104)]
    assert _origins(draft)[5] == ("c", 104, 105)


def test_an_insertion_belongs_to_the_character_before_it() -> None:
    draft = Draft("ab")
    draft.edit([(1, 1, "-")])
    assert _origins(draft) == [("a", 0, 1), ("-", 0, 1), ("b", 1, 2)]


def test_kept_groups_keep_their_own_origins() -> None:
    draft = Draft("x*yz*!")
    draft.keep(re.compile(r"\*(\w+)\*"), after=".")
    assert _origins(draft) == [
        ("x", 0, 1),
        ("y", 2, 3),
        ("z", 3, 4),
        (".", 4, 5),
        ("!", 5, 6),
    ]


def test_a_declined_match_stays() -> None:
    draft = Draft("a1b22")
    draft.sub(re.compile(r"\d+"), lambda m: None if len(m.group()) == 1 else "#")
    assert draft.text == "a1b#"


def test_no_search_without_a_mark() -> None:
    draft = Draft("abc")
    draft.sub(re.compile("b"), "x", marks="z")
    assert draft.text == "abc"
    draft.sub(re.compile("b"), "x", marks=("z", "bc"))
    assert draft.text == "axc"


def test_a_whole_text_may_vanish() -> None:
    draft = Draft("abc")
    draft.sub(re.compile("[a-c]+"), "")
    assert (draft.text, len(draft.starts), len(draft.ends)) == ("", 0, 0)


@given(st.text("ab1 ", max_size=30), st.text("xy", max_size=3), st.text("z", max_size=2))
def test_two_rewritings_equal_re_sub_and_origins_ascend(text: str, one: str, two: str) -> None:
    draft = Draft(text)
    draft.sub(re.compile("a+"), one)
    draft.sub(re.compile("[x1]b?"), two)
    assert draft.text == re.sub("[x1]b?", two, re.sub("a+", one, text))
    assert list(draft.starts) == sorted(draft.starts)
    assert list(draft.ends) == sorted(draft.ends)
    assert all(0 <= a <= b <= len(text) for a, b in zip(draft.starts, draft.ends, strict=True))
