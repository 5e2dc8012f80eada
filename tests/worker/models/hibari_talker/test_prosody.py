"""Tokens become durations, pitch and energy, the same however they come."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.worker.models.hibari import bundled
from tests.worker.models.hibari_talker.spoken import mean_semitones, net, tokens
from worker.models.hibari_talker.pieces import num_settled, piece_ends
from worker.models.hibari_talker.prosody import Piece, ProsodyStream, Rhythm

LONG = bundled.LONG


def run(text: str, written: list[int], bursts: list[int], speed: float = 1.0) -> list[Piece]:
    """The pieces of a sentence whose tokens come in bursts of these sizes, over and over."""
    ids = bundled.ids(text)
    rhythm = Rhythm(ids.size, speed)
    stream = ProsodyStream(rhythm, net(), net(), ids)
    pieces: list[Piece] = []
    position, turn = 0, 0
    while position < len(written):
        size = bursts[turn % len(bursts)]
        rhythm.push(written[position : position + size])
        position, turn = position + size, turn + 1
        settled = sum(piece.f0.size for piece in pieces)
        assert rhythm.num_settled_frames >= settled
        pieces += list(iter(stream.take, None))
        assert rhythm.num_settled_frames == sum(piece.f0.size for piece in pieces)
    return pieces


def whole(pieces: list[Piece]) -> Piece:
    return Piece(*(np.concatenate([getattr(p, n) for p in pieces]) for n in Piece.__slots__))


@settings(max_examples=10, deadline=None)
@given(bursts=st.lists(st.integers(1, 40), min_size=1, max_size=5))
def test_bursts_change_nothing(bursts: list[int]) -> None:
    written = tokens(LONG, stretch=1.2, semitones=2)
    once, often = run(LONG, written, [len(written)]), run(LONG, written, bursts)
    assert len(once) == len(often)
    for one, other in zip(once, often, strict=True):
        for name in Piece.__slots__:
            assert np.array_equal(getattr(one, name), getattr(other, name))


def test_pieces_end_where_tokens_are_settled() -> None:
    written = tokens(LONG)
    sizes = np.cumsum([piece.durations.size for piece in run(LONG, written, [1])])
    count = len(written)
    assert sizes.tolist() == [num_settled(end, count) for end in piece_ends(count)]


def test_the_teachers_own_tokens_give_its_own_speech() -> None:
    frames = bundled.frames(LONG)
    made = whole(run(LONG, tokens(LONG), [7]))
    voiced = frames.f0 > 70
    assert np.array_equal(made.durations, frames.durations)
    assert np.abs(made.f0 - frames.f0)[voiced].mean() < 3
    assert np.abs(made.energy - frames.energy).mean() < 0.2


@pytest.mark.parametrize("semitones", [-3, 4])
def test_pitch_follows_the_tokens(semitones: int) -> None:
    made = whole(run(LONG, tokens(LONG, semitones=semitones), [5]))
    moved = mean_semitones(made.f0) - mean_semitones(bundled.frames(LONG).f0)
    assert moved == pytest.approx(semitones, abs=0.35)


@pytest.mark.parametrize("speed", [0.25, 0.8, 1.3, 4.0])
def test_speed_divides_the_length(speed: float) -> None:
    written = tokens(LONG)
    length = int(bundled.frames(LONG).durations.sum())
    made = whole(run(LONG, written, [9], speed))
    assert made.durations.min() >= 1
    assert made.durations.sum() == pytest.approx(max(length / speed, len(written)), rel=0.25)
    assert made.f0.size == made.energy.size == 2 * made.durations.sum()


def test_a_short_sentence_is_one_piece() -> None:
    ids = bundled.ids("Hi.")
    assert len(run("Hi.", tokens("Hi."), [1])) == 1
    assert ids.size < 12


def test_a_token_that_says_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="token 5 is no prosody token"):
        Rhythm(4, 1.0).push([5])
