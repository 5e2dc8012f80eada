"""What was said of a text, and when."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from server.sessions.spoken import TextLog, WordLedger, WordTime, describe_word, read_words


@given(st.lists(st.text(max_size=5)), st.integers(0, 20), st.integers(0, 20))
def test_a_slice_is_that_of_the_joined_pieces(pieces: list[str], first: int, last: int) -> None:
    log = TextLog()
    for number, piece in enumerate(pieces):
        log.append(piece)
        if number % 3 == 0:
            log.slice(0, 1)

    assert log.slice(first, last) == "".join(pieces)[first:last]
    assert log.num_chars == len("".join(pieces))


def test_only_words_that_have_wholly_sounded_count() -> None:
    ledger = WordLedger()
    ledger.add(read_words([(10, 20, 0, 3), [25, 40, 4, 9]]))

    assert [ledger.chars_until(sample) for sample in (0, 19, 20, 39, 40, 99)] == [0, 0, 3, 3, 9, 9]


def test_a_word_is_told_in_ms_from_its_origin() -> None:
    assert describe_word(WordTime(4800, 7200, 3, 8), "there", 24000, 2400) == {
        "word": "there",
        "start_ms": 100,
        "end_ms": 200,
        "start_char": 3,
        "end_char": 8,
    }
