"""A listener's player: starts at the first chunk, plays in real time, may run dry. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.speech_client import BYTES_PER_SAMPLE, SAMPLE_RATE


@dataclass(slots=True)
class Player:
    """Times are seconds of one clock. Nothing is held back before it starts to play."""

    arrived_at: float
    started_at: float | None = None
    ends_at: float = 0.0
    num_underruns: int = 0
    stalled_s: float = 0.0

    def feed(self, now: float, data: bytes) -> None:
        """A piece of audio, int16 mono, has come."""
        if self.started_at is None:
            self.started_at = self.ends_at = now
        elif now > self.ends_at:
            self.num_underruns += 1
            self.stalled_s += now - self.ends_at
            self.ends_at = now
        self.ends_at += len(data) / BYTES_PER_SAMPLE / SAMPLE_RATE

    @property
    def ttfa_s(self) -> float:
        """Raises ``ValueError`` if nothing came."""
        if self.started_at is None:
            raise ValueError("the player got no audio")
        return self.started_at - self.arrived_at


def mean_listening(players: Sequence[Player], start: float, end: float) -> float:
    """How many of the players were waiting or playing, averaged over the time from start to end."""
    overlaps = (max(min(p.ends_at, end) - max(p.arrived_at, start), 0.0) for p in players)
    return sum(overlaps) / (end - start)
