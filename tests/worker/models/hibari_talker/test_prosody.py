"""Tokens become durations, pitch and energy, the same however they come."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.worker.models.hibari import bundled
from tests.worker.models.hibari_talker.spoken import mean_semitones, net, tokens
from worker.models.hibari_talker import prosody
from worker.models.hibari_talker.pieces import num_settled, piece_ends
from worker.models.hibari_talker.prosody import Piece, ProsodyStream, Rhythm

LONG = bundled.LONG


def run(text: str, written: list[int], bursts: list[int], speed: float = 1.0) -> list[Piece]:
    """The pieces of a sentence whose tokens come in bursts of these sizes, over and over."""
    ids = bundled.ids(text)
    rhythm = Rhythm(ids.size, speed)
    stream = ProsodyStream(rhythm, net(), net(), ids)
    made: list[Piece] = []
    position, turn = 0, 0
    while position < len(written):
        size = bursts[turn % len(bursts)]
        rhythm.push(written[position : position + size])
        position, turn = position + size, turn + 1
        settled = sum(piece.f0.size for piece in made)
        assert rhythm.num_settled_frames >= settled
        made += list(iter(stream.take, None))
        assert rhythm.num_settled_frames == sum(piece.f0.size for piece in made)
    return made


def whole(parts: list[Piece]) -> Piece:
    return Piece(*(np.concatenate([getattr(p, n) for p in parts]) for n in Piece.__slots__))


@settings(max_examples=15, deadline=None)
@given(
    bursts=st.lists(st.integers(1, 40), min_size=1, max_size=5),
    speed=st.sampled_from([0.25, 0.4, 1.0, 2.0, 4.0]),
)
def test_bursts_change_nothing(bursts: list[int], speed: float) -> None:
    written = tokens(LONG, stretch=1.2, semitones=2)
    once, often = run(LONG, written, [len(written)], speed), run(LONG, written, bursts, speed)
    assert len(once) == len(often)
    for one, other in zip(once, often, strict=True):
        for name in Piece.__slots__:
            assert np.array_equal(getattr(one, name), getattr(other, name))


def test_pieces_end_where_tokens_are_settled() -> None:
    written = tokens(LONG)
    sizes = np.cumsum([piece.durations.size for piece in run(LONG, written, [1])])
    count = len(written)
    assert sizes.tolist() == [num_settled(end, count, 1.0) for end in piece_ends(count)]


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


def in_pieces_and_known(
    monkeypatch: pytest.MonkeyPatch, stretch: float, speed: float
) -> tuple[Piece, Piece]:
    """A sentence whose tokens came one by one, and the same with all of them known."""
    written = tokens(LONG, stretch=stretch, semitones=4)
    made = whole(run(LONG, written, [1], speed))
    monkeypatch.setattr(prosody, "piece_ends", lambda num_phonemes: iter([num_phonemes]))
    known = whole(run(LONG, written, [len(written)], speed))
    assert np.array_equal(made.durations, known.durations)
    return made, known


@pytest.mark.parametrize("speed", [0.25, 0.3, 0.45, 1.0])
def test_slow_speech_in_pieces_is_pitched_as_if_all_were_known(
    speed: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There the net's window ends before the last token that has come; its pitch waits."""
    made, known = in_pieces_and_known(monkeypatch, 2.4, speed)
    voiced = (made.f0 > 70) & (known.f0 > 70)
    assert np.abs(12 * np.log2(made.f0[voiced] / known.f0[voiced])).max() < 4.5


@pytest.mark.parametrize("speed", [0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0])
def test_speech_in_pieces_is_as_near_to_what_all_tokens_give_at_any_speed(
    speed: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Moves that were kept from when the net's pitch was not settled cost 6 to 14 Hz above 1."""
    made, known = in_pieces_and_known(monkeypatch, 1.0, speed)
    voiced = (made.f0 > 70) & (known.f0 > 70)
    assert np.sqrt(np.square(made.f0 - known.f0)[voiced].mean()) < 3
    assert np.sqrt(np.square(made.energy - known.energy).mean()) < 0.1


def test_fast_speech_looks_as_far_ahead_in_time() -> None:
    """Its first pieces settle nothing, and are passed over."""
    written = tokens(LONG)
    ends = list(piece_ends(len(written)))
    sizes = np.cumsum([piece.durations.size for piece in run(LONG, written, [1], 4.0)])
    assert sizes.tolist() == [end - 16 for end in ends[:-1] if end > 16] + [len(written)]


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
