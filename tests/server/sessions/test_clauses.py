"""Ends of clauses in a text that comes in pieces."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from server.sessions.clauses import ClauseFinder

TEXT = (
    'When the rain had stopped, they went out; "nobody was there," she said. It cost 1,000 euros.'
)


def cuts(pieces: list[str]) -> list[str]:
    """The text up to each cut."""
    finder, text, found = ClauseFinder(), "", []
    for piece in pieces:
        cut = finder.feed(piece, cut=True)
        if cut is not None:
            found.append((text + piece)[: len(text) + cut])
        text += piece
    return found


def test_a_clause_ends_behind_its_mark_once_white_space_follows() -> None:
    assert cuts(["When the rain had stopped", ",", " they"]) == ["When the rain had stopped,"]
    assert cuts(["When the rain had stopped,", "000"]) == []
    assert cuts(["It was exactly at 3:15 and cost 1,000 euros"]) == []
    assert cuts(['"When the rain had stopped,"', " he"]) == ['"When the rain had stopped,"']


def test_a_short_clause_is_no_cut() -> None:
    assert cuts(["Well, ", "I think so, ", "yes"]) == ["Well, I think so,"]


def test_a_sentence_that_has_ended_counts_as_settled() -> None:
    finder = ClauseFinder()
    finder.feed("Nobody was there. But, ", cut=True)

    assert finder.num_settled == len("Nobody was there. ")
    finder.settle()
    assert finder.num_settled == len("Nobody was there. But, ")


def test_without_leave_nothing_is_cut() -> None:
    finder = ClauseFinder()

    assert finder.feed("When the rain had stopped, they", cut=False) is None
    assert finder.num_settled == 0


@given(st.lists(st.integers(0, len(TEXT)), max_size=30))
def test_a_cut_is_always_behind_a_mark_wherever_the_pieces_end(places: list[int]) -> None:
    bounds = [0, *sorted(places), len(TEXT)]
    pieces = [TEXT[a:b] for a, b in pairwise(bounds)]

    for text in cuts(pieces):
        assert TEXT.startswith(text)
        assert text[-1] in ',;"'
        assert TEXT[len(text)].isspace()
