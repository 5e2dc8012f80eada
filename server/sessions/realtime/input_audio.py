"""The audio that a client has sent and not yet committed, placed on the session's clock."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Clip:
    """A turn's audio: s16le mono at ``rate`` Hz, from ``start_ms`` of the session's audio."""

    pcm: bytes
    rate: int
    start_ms: int

    @property
    def duration_ms(self) -> int:
        return len(self.pcm) * 500 // self.rate


class InputAudio:
    """Holds at most ``max_ms`` of audio; the oldest goes first.

    Positions are ms since the session's first sample, whatever was dropped, cleared or committed.
    """

    def __init__(self, rate: int, max_ms: int) -> None:
        self._rate = rate
        self._max_bytes = max_ms * rate // 500
        self._max_ms = max_ms
        self._pieces: deque[bytes] = deque()
        self._num_bytes = 0
        self._end_samples = 0
        self._base_ms = 0

    @property
    def end_ms(self) -> int:
        """How much audio the session has had."""
        return self._base_ms + self._end_samples * 1000 // self._rate

    @property
    def held_ms(self) -> float:
        return self._num_bytes * 500 / self._rate

    @property
    def start_ms(self) -> int:
        """Where the audio that is held begins."""
        return self._base_ms + (self._end_samples - self._num_bytes // 2) * 1000 // self._rate

    @property
    def rate(self) -> int:
        return self._rate

    def change_rate(self, rate: int) -> None:
        """Audio comes at another rate from now on; what is held is dropped."""
        self._base_ms = self.end_ms
        self._end_samples = 0
        self._rate, self._max_bytes = rate, self._max_ms * rate // 500
        self.clear()

    def append(self, pcm: bytes) -> None:
        """More audio, s16le in whole samples."""
        self._pieces.append(pcm)
        self._num_bytes += len(pcm)
        self._end_samples += len(pcm) // 2
        self._drop_bytes(self._num_bytes - self._max_bytes)

    def clear(self) -> None:
        self._pieces.clear()
        self._num_bytes = 0

    def drop_before(self, at_ms: int) -> None:
        """Forget what came before ``at_ms``."""
        self._drop_bytes(self._num_bytes - self._bytes_after(at_ms))

    def clip(self, start_ms: int, end_ms: int) -> Clip:
        """What is held of ``start_ms`` up to ``end_ms``."""
        held = b"".join(self._pieces)
        self._pieces = deque([held])
        first = self._num_bytes - min(self._bytes_after(start_ms), self._num_bytes)
        last = self._num_bytes - min(self._bytes_after(end_ms), self._num_bytes)
        return Clip(held[first:last], self._rate, max(start_ms, self.start_ms))

    def _bytes_after(self, at_ms: int) -> int:
        """Bytes from ``at_ms`` up to the end, however many are held."""
        sample = (at_ms - self._base_ms) * self._rate // 1000
        return max(self._end_samples - sample, 0) * 2

    def _drop_bytes(self, num_bytes: int) -> None:
        """Drop at least so many of the oldest bytes that are held, in whole samples."""
        while num_bytes > 0 and self._pieces:
            first = self._pieces[0]
            if len(first) <= num_bytes:
                self._pieces.popleft()
                dropped = len(first)
            else:
                dropped = num_bytes + num_bytes % 2
                self._pieces[0] = first[dropped:]
            self._num_bytes -= dropped
            num_bytes -= dropped
