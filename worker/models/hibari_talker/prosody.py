"""Tokens to durations, pitch and energy, piece by piece, while the talker still writes.

Durations are the tokens'. Pitch and energy come from the voice's own prosody net under these
durations (``ContourNet``), as far as they are known; beyond the look-ahead its own rhythm is
assumed, at the pace so far. The net's pitch is then moved to the tokens': a token says a semitone,
so each phoneme is moved by what its neighbours are moved by, as far as it stays within the half
semitone that the token leaves. A sentence that the talker speaks as the net would is hardly moved.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from worker.models.hibari.contour_net import REACH_UNITS, ContourNet
from worker.models.hibari_talker.phoneme_pitch import phoneme_pitches
from worker.models.hibari_talker.pieces import num_settled, piece_ends
from worker.models.hibari_talker.tokens import split_token

FloatArray = npt.NDArray[np.float32]
DoubleArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int32]

_NEIGHBOURS = 8
"""Voiced phonemes whose movement is averaged: about two words."""
_ROUNDING_ST = 0.5
"""A token's pitch is right to so many semitones."""
_MIN_PACE, _MAX_PACE = 0.4, 2.5
"""Bounds of the pace that is assumed of what follows: a first pause must not rule it."""
MAX_UNITS = 96
"""Longest duration, 2.4 s: the longest token at a quarter of the speed."""


@dataclass(frozen=True, slots=True)
class Piece:
    """The prosody of the next phonemes of a sentence."""

    durations: IntArray
    """[n] units of 25 ms."""
    f0: FloatArray
    """[F] Hz, F = 2 * sum(durations)."""
    energy: FloatArray
    """[F]"""


class Rhythm:
    """What the tokens of one sentence say so far.

    Args:
        num_phonemes: of the sentence, with both pads.
        speed: divides the durations.
    """

    def __init__(self, num_phonemes: int, speed: float) -> None:
        self.num_phonemes = num_phonemes
        self.speed = speed
        self.durations: list[int] = []
        """Units of 25 ms, at the speed."""
        self.pitches: list[int] = []
        """Semitones above 70 Hz, 0 where unvoiced."""
        self._ends = list(piece_ends(num_phonemes))
        self._elapsed = 0

    @property
    def is_whole(self) -> bool:
        return len(self.durations) == self.num_phonemes

    @property
    def num_settled_frames(self) -> int:
        """Frames of 12.5 ms whose prosody is settled."""
        known = max((end for end in self._ends if end <= len(self.durations)), default=0)
        return 2 * sum(self.durations[: self.num_settled(known)])

    def num_settled(self, known: int) -> int:
        """Phonemes whose prosody is settled by so many tokens."""
        return num_settled(known, self.num_phonemes, self.speed)

    def push(self, tokens: Sequence[int]) -> None:
        """The next tokens. Raises ``ValueError`` for one that is no prosody token."""
        for token in tokens:
            units, pitch = split_token(int(token))
            self.pitches.append(pitch)
            self.durations.append(self._at_speed(units))

    def _at_speed(self, units: int) -> int:
        """Rounded so that the sum stays right."""
        before = round(self._elapsed / self.speed)
        self._elapsed += units
        return min(max(1, round(self._elapsed / self.speed) - before), MAX_UNITS)


class ProsodyStream:
    """The prosody of one sentence, in pieces. One thread at a time.

    Args:
        rhythm: what the tokens say; it grows meanwhile.
        teacher: of the voice that the talker learned from.
        voice: of the voice that speaks.
        ids: [L] phoneme ids with both pads.
    """

    def __init__(
        self,
        rhythm: Rhythm,
        teacher: ContourNet,
        voice: ContourNet,
        ids: npt.NDArray[np.int64],
    ) -> None:
        self._rhythm = rhythm
        self._teacher, self._voice = teacher, voice
        self._num_phonemes = ids.size
        nets = (teacher,) if voice is teacher else (teacher, voice)
        texts = [net.read(ids, 1.0) for net in nets]
        self._features = [text.features for text in texts]
        self._own = texts[0].durations / rhythm.speed
        self._ends = list(piece_ends(ids.size))
        self._moves = np.full(ids.size, np.nan)
        self._num_moves = 0
        self._num_taken = 0
        self._num_pieces = 0

    def take(self) -> Piece | None:
        """The next piece, or None if its tokens have not come or there is none."""
        while self._num_pieces < len(self._ends):
            known = self._ends[self._num_pieces]
            if len(self._rhythm.durations) < known:
                return None
            self._num_pieces += 1
            start, self._num_taken = self._num_taken, self._rhythm.num_settled(known)
            if self._num_taken > start:  # at high speeds the first tokens settle nothing
                return self._settle(start, self._num_taken, known)
        return None

    def _settle(self, start: int, stop: int, known: int) -> Piece:
        durations = self._assumed(known)
        ends = np.concatenate([[0], np.cumsum(durations)])
        low = int(np.searchsorted(ends, ends[start] - REACH_UNITS, "right")) - 1
        high = int(np.searchsorted(ends, ends[stop] + REACH_UNITS, "left"))
        window = slice(max(low, 0), min(high, self._num_phonemes))
        f0, energy, learned = self._contours(window, durations)
        first, last = 2 * (ends[[start, stop]] - ends[window.start])
        self._update_moves(window, durations, learned, (stop, known))
        moved = self._moved(f0, window, durations)
        return Piece(durations[start:stop], moved[first:last], energy[first:last])

    def _assumed(self, known: int) -> IntArray:
        """[L] the durations that are known, and the net's own at the pace so far."""
        said = np.array(self._rhythm.durations[:known], np.float64)
        # The pad in front is silence.
        pace = said[1:].sum() / max(1.0, float(self._own[1:known].sum()))
        rest = np.rint(self._own[known:] * np.clip(pace, _MIN_PACE, _MAX_PACE))
        return np.asarray(np.maximum(np.concatenate([said, rest]), 1), np.int32)

    def _contours(
        self, window: slice, durations: IntArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Pitch and energy of the voice, and pitch of the teacher, over a window of phonemes."""
        learned, energy = self._teacher.run(self._features[0][window], durations[window])
        if self._voice is self._teacher:
            return learned, energy, learned
        f0, energy = self._voice.run(self._features[1][window], durations[window])
        return f0, energy, learned

    def _update_moves(
        self, window: slice, durations: IntArray, learned: FloatArray, ends: tuple[int, int]
    ) -> None:
        """How far the phonemes that have come are moved; NaN where nothing is said.

        ``ends``: those before the first are settled; those behind it, up to the second, are known
        but their pitch in the net is not, so what is found for them holds for this piece only.
        """
        settled, known = ends
        heights = np.full(self._num_phonemes, np.nan)
        heights[window] = phoneme_pitches(durations[window], learned)
        tokens = np.full(self._num_phonemes, np.nan)
        tokens[:known] = [pitch or np.nan for pitch in self._rhythm.pitches[:known]]
        distances = tokens - heights
        for index in range(self._num_moves, min(known, window.stop)):
            self._moves[index] = self._move(distances, index)
        self._num_moves = settled

    def _move(self, distances: DoubleArray, index: int) -> float:
        if not np.isfinite(distances[index]):
            return math.nan
        near = distances[max(0, index - _NEIGHBOURS + 1) : index + 3]
        near = np.concatenate([self._recent(index), near[np.isfinite(near)]])
        low, high = distances[index] - _ROUNDING_ST, distances[index] + _ROUNDING_ST
        return float(np.clip(near[-_NEIGHBOURS:].mean(), low, high))

    def _recent(self, index: int) -> DoubleArray:
        recent = self._moves[max(0, index - _NEIGHBOURS) : index]
        return np.asarray(recent[np.isfinite(recent)])

    def _moved(self, f0: FloatArray, window: slice, durations: IntArray) -> FloatArray:
        moves = self._moves[window]
        said = np.isfinite(moves)
        if not said.any():
            return f0
        ends = 2 * np.cumsum(durations[window])
        centres = ends - durations[window]
        frames = np.arange(f0.size) + 0.5
        semitones = np.interp(frames, centres[said], moves[said])
        return np.asarray(f0 * np.exp2(semitones / 12), np.float32)
