"""Pieces end where the number of tokens says, whatever the bursts."""

from __future__ import annotations

import pytest

from worker.models.hibari_talker.pieces import (
    LOOKAHEAD,
    MAX_PIECES,
    num_settled,
    piece_end,
    piece_ends,
)


@pytest.mark.parametrize("num_phonemes", [3, 12, 13, 57, 115, 128, 240])
def test_counting_tokens_and_listing_ends_agree(num_phonemes: int) -> None:
    reached = {piece_end(count, num_phonemes) for count in range(num_phonemes + 1)}
    assert sorted(reached - {0}) == list(piece_ends(num_phonemes))
    assert len(list(piece_ends(num_phonemes))) <= MAX_PIECES


def test_only_the_end_settles_the_last_phonemes() -> None:
    assert num_settled(20, 50, 1.0) == 20 - LOOKAHEAD
    assert num_settled(50, 50, 1.0) == 50
    assert num_settled(2, 50, 1.0) == 0


def test_faster_speech_waits_for_more_tokens_and_slower_for_no_fewer() -> None:
    settled = [num_settled(40, 50, speed) for speed in (0.25, 1.0, 1.3, 2.0, 4.0)]
    assert settled == [40 - LOOKAHEAD * factor for factor in (1, 1, 1.5, 2, 4)]
