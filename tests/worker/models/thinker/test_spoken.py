"""What of an answer is read aloud."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from worker.models.thinker.spoken import Piece, SpokenText


def read(pieces_in: list[str]) -> list[Piece]:
    spoken = SpokenText()
    return [piece for text in pieces_in for piece in spoken.feed(text)] + spoken.finish()


def said(text: str) -> str:
    return "".join(("|" if piece.breaks else "") + piece.text for piece in read([text]))


@pytest.mark.parametrize(
    ("answer", "heard"),
    [
        ("Hello, you.", "Hello, you."),
        ("<think>Hm, hm.</think>Yes.", "|Yes."),
        ("<thinking>a </think> b</thinking>Yes.", "|Yes."),
        ("Well, <reasoning>x</reasoning>no.", "Well, |no."),
        ("Do this:\n```python\nprint(1)\n```\nDone.", "Do this:\n|Done."),
        ("~~~\na\n```\nb\n~~~\nDone.", "|Done."),
        ("````\n```\n````\nDone.", "|Done."),
        ("Use `x` and ``y`` now.", "Use `x` and ``y`` now."),
        ("a ``` b", "a ``` b"),
        ("2 < 3 and <b>bold</b>", "2 < 3 and <b>bold</b>"),
        ("<think>never closed", ""),
        ("Look:\n```\nnever closed", "Look:\n"),
        ("```", "```"),
        ("a <thin", "a <thin"),
        ("<think></think>", ""),
        ("Hm, hm.</think>Yes.", "Hm, hm.|Yes."),
        ("2</3 and </b>", "2</3 and </b>"),
        ("", ""),
    ],
)
def test_blocks_are_left_out_and_nothing_else(answer: str, heard: str) -> None:
    assert said(answer) == heard


def test_text_is_passed_on_as_soon_as_it_is_certain() -> None:
    spoken = SpokenText()
    assert [piece.text for piece in spoken.feed("Hello")] == ["Hello"]
    assert spoken.feed(" <th") == [Piece(" ", 5)]
    assert spoken.feed("e") == [Piece("<the", 6)]
    assert spoken.feed("\n") == [Piece("\n", 10)]
    assert spoken.feed("``") == []
    assert spoken.feed("x``") == [Piece("``x``", 11)]
    assert spoken.feed("\n\n```\nno\n```\nYes") == [Piece("\n\n", 16), Piece("Yes", 29, True)]


def test_a_piece_knows_its_place_in_the_answer() -> None:
    answer = "One.\n```\ncode\n```\nTwo. <think>hm</think>Three."
    for piece in read(list(answer)):
        assert answer[piece.offset : piece.offset + len(piece.text)] == piece.text


PARTS = [
    *("<think>", "</think>", "<thinking>", "</thinking>", "<", ">", "<thi"),
    *("```", "~~~", "`", "````", "\n", " ", "py", "a", "Hello. ", "``", "   ", "\n\n"),
]


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from(PARTS), max_size=30))
@example(["```", "\n", "`", "``", "\n", "a"])
@example([" ", "```", "py", "\n", "a", "\n", "```"])
def test_how_an_answer_is_cut_changes_nothing(parts: list[str]) -> None:
    answer = "".join(parts)
    whole = said(answer)
    for pieces in (parts, list(answer)):
        found = read(pieces)
        joined = "".join(("|" if piece.breaks else "") + piece.text for piece in found)
        assert joined == whole
        for piece in found:
            assert answer[piece.offset : piece.offset + len(piece.text)] == piece.text
