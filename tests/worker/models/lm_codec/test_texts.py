"""A request's text as pieces that are said one after the other."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from worker.models.lm_codec.texts import PieceSource, TextPiece, spoken_length


def pieces(text: str, max_chars: int, cuts: tuple[int, ...] = ()) -> list[TextPiece]:
    source, start = PieceSource(max_chars), 0
    for cut in (*cuts, len(text)):
        source.feed(text[start:cut], start)
        start = cut
    source.flush()
    found = []
    while (piece := source.take()) is not None:
        found.append(piece)
    assert source.is_empty
    return found


def test_short_sentences_are_joined_and_long_ones_cut_at_a_clause() -> None:
    text = "One. Two two. Three is rather long, longer than the others, and it goes on and on."
    found = [piece.text for piece in pieces(text, 46)]
    assert found == [
        "One. Two two.",
        "Three is rather long, longer than the others,",
        "and it goes on and on.",
    ]


def test_wide_stops_end_a_piece_although_no_space_follows() -> None:
    found = [piece.text for piece in pieces("今天天气很好。我们去公园吧！好不好？", 20)]
    assert found == ["今天天气很好。", "我们去公园吧！", "好不好？"]
    assert [p.text for p in pieces("今天。很好。", 20)] == ["今天。很好。"]


@settings(deadline=None)
@given(st.text("ab. ,\n。!7今", max_size=120), st.integers(5, 40))
def test_pieces_are_short_enough_and_say_where_they_are(text: str, max_chars: int) -> None:
    end = 0
    for piece in pieces(text, max_chars):
        assert len(piece.text) <= spoken_length(piece.text) <= max_chars
        assert piece.span.start >= end
        end = piece.span.end
        squeezed = "".join(piece.text.split())
        assert "".join(text[piece.span.start : end].split()) == squeezed


@settings(deadline=None)
@given(st.text("ab. ,。!", max_size=60), st.sets(st.integers(0, 60), max_size=5))
def test_pieces_do_not_depend_on_how_a_text_is_fed(text: str, cuts: set[int]) -> None:
    inside = tuple(sorted(cut for cut in cuts if cut <= len(text)))
    assert pieces(text, 20, inside) == pieces(text, 20)


def test_a_piece_waits_to_be_joined_until_its_segment_is_closed() -> None:
    source = PieceSource(100)
    source.feed("Good morning. How ", 0)
    assert source.take() is None
    source.close()
    piece = source.take()
    assert piece is not None
    assert piece.text == "Good morning."
    assert not source.is_empty


@pytest.mark.parametrize(
    ("text", "length"),
    [("Good morning, Anna!", 19), ("Call 555", 17), ("$5 ½", 13), ("今天，好。", 11), ("안녕", 6)],
)
def test_a_digit_and_a_wide_letter_take_as_long_to_say_as_several_letters(
    text: str, length: int
) -> None:
    assert spoken_length(text) == length


def test_a_text_of_digits_is_cut_where_it_would_take_too_long_to_say() -> None:
    found = [piece.text for piece in pieces("12 34 56 78 90", 20)]
    assert found == ["12 34", "56 78", "90"]
