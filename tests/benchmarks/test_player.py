from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.player import Player, mean_listening

SECOND = bytes(48_000)


def test_a_player_that_is_fed_in_time_plays_through() -> None:
    player = Player(arrived_at=10.0)
    player.feed(10.5, SECOND)
    player.feed(11.5, SECOND)
    player.feed(11.6, SECOND)
    assert player.ttfa_s == 0.5
    assert (player.num_underruns, player.stalled_s, player.ends_at) == (0, 0.0, 13.5)


def test_a_player_that_runs_dry_waits_and_ends_later() -> None:
    player = Player(arrived_at=0.0)
    player.feed(1.0, SECOND)
    player.feed(2.25, SECOND)
    player.feed(3.5, SECOND)
    assert (player.num_underruns, player.stalled_s, player.ends_at) == (2, 0.5, 4.5)


def test_a_player_that_got_nothing_has_no_time_to_first_audio() -> None:
    with pytest.raises(ValueError, match="no audio"):
        _ = Player(arrived_at=0.0).ttfa_s


@given(st.lists(st.tuples(st.floats(0, 3), st.integers(1, 48_000)), min_size=1, max_size=30))
def test_playing_takes_the_audio_and_the_stalls_and_nothing_else(
    chunks: list[tuple[float, int]],
) -> None:
    player = Player(arrived_at=0.0)
    now = 0.0
    for wait_s, num_samples in chunks:
        now += wait_s
        player.feed(now, bytes(2 * num_samples))
    audio_s = sum(num_samples for _, num_samples in chunks) / 24_000
    assert player.started_at is not None
    assert player.ends_at == pytest.approx(player.started_at + audio_s + player.stalled_s)
    assert (player.num_underruns == 0) == (player.stalled_s == 0)


def test_listeners_are_counted_from_their_arrival_to_the_end_of_playing() -> None:
    players = [Player(0.0, 1.0, ends_at=4.0), Player(3.0, 3.5, ends_at=9.0), Player(9.0, 9.0, 10.0)]
    assert mean_listening(players, 2.0, 6.0) == (2.0 + 3.0) / 4.0
