"""One sentence on its way to samples: all of its prosody at once, or piece by piece."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from worker.models.hibari.decoder import HALF_KERNEL, Decoder, DecoderStream
from worker.models.hibari.prosody_net import MIN_IDS
from worker.models.hibari.pulses import HOP
from worker.models.hibari.shape import VoiceShape
from worker.models.hibari.vocoder import VocoderStream

FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int32]

GRAIN_FRAMES = 8
"""Frames go into the decoder in multiples of this, so that no call is made for one or two."""

BLOCK_FRAMES = 160
"""Most frames in one call of the decoder: its widest activations still fit a 2 MB cache. Smaller
blocks read the weights too often: steps of 160 frames cost 5 % less than steps of 96, and 17 % less
than steps of 48."""


MIN_FRAMES = 4
"""Of the first piece of prosody: two units of 25 ms."""


class SentenceStream:
    """Makes the samples of one sentence. One thread at a time.

    The phonemes are known from the start, the prosody may grow (``extend``). Whatever pieces either
    comes in, the samples have the same bits.

    Args:
        decoder: the voice's.
        ids: [L] phoneme ids with both pads.
        seed: of the noise.
        shape: how the voice is changed.
        mean_hz: the pitch from which the shape's ``pitch_range`` counts; the mean of what comes
            first if it is not given.
    """

    def __init__(
        self,
        decoder: Decoder,
        ids: npt.NDArray[np.int64],
        *,
        seed: int,
        shape: VoiceShape,
        mean_hz: float | None = None,
    ) -> None:
        if ids.ndim != 1 or ids.size < MIN_IDS:
            raise ValueError(f"ids must be one row of at least {MIN_IDS}, not of shape {ids.shape}")
        self._model = decoder
        self._taps = decoder.read_text(ids)
        self._num_phonemes = ids.size
        self._seed = seed
        self._shape = shape
        self._mean_hz = mean_hz
        self._durations = np.zeros(0, np.int32)
        self._f0 = np.zeros(0, np.float32)
        self._energy = np.zeros(0, np.float32)
        self._decoder: DecoderStream | None = None
        self._vocoder: VocoderStream | None = None
        self._skip_frames = 0
        self._asked = 0

    @property
    def is_whole(self) -> bool:
        """Whether the prosody of every phoneme is known."""
        return self._durations.size == self._num_phonemes

    @property
    def num_frames(self) -> int:
        """Frames of the sentence, as far as it is known."""
        return self._f0.size

    @property
    def num_ready_frames(self) -> int:
        """Frames that may be stepped by now: a frame waits for the three that follow it."""
        return self.num_frames if self.is_whole else max(self.num_frames - HALF_KERNEL, 0)

    @property
    def num_samples(self) -> int:
        """Samples that the steps return altogether, as far as is known."""
        return HOP * (self.num_frames - self._skip_frames)

    @property
    def finished(self) -> bool:
        """Whether every sample was returned."""
        position = 0 if self._decoder is None else self._decoder.position
        return self.is_whole and position == self.num_frames

    def extend(
        self, durations: IntArray, f0: FloatArray, energy: FloatArray, *, skip_frames: int = 0
    ) -> None:
        """The prosody of the next phonemes.

        Args:
            durations: [n] units of 25 ms, at least 1 each.
            f0: [F] Hz, F = 2 * sum(durations).
            energy: [F].
            skip_frames: frames at the beginning of the sentence whose samples are left out; only
                with the first piece.

        Raises:
            ValueError: an argument is not allowed; the message names it.
        """
        room = self._num_phonemes - self._durations.size
        _check(durations, f0, energy, room)
        if self._decoder is None:
            self._check_first(f0.size, skip_frames)
        elif skip_frames:
            raise ValueError("skip_frames must come with the first piece")
        shaped = self._shape.apply_to_pitch(f0, self._mean_hz)
        self._durations = np.concatenate([self._durations, durations])
        self._f0 = np.concatenate([self._f0, shaped])
        self._energy = np.concatenate([self._energy, energy])
        self._lay_out(skip_frames)

    def step(self, num_frames: int) -> FloatArray:
        """Decode up to ``num_frames`` frames more; returns the samples that became final.

        The result is empty while the look-ahead of decoder and vocoder fills or skipped frames
        pass. The step that takes in the last frame returns everything that remains.

        Raises:
            ValueError: num_frames is less than 1, or more than are ready of a sentence that grows.
        """
        if num_frames < 1:
            raise ValueError(f"num_frames must be at least 1, not {num_frames}")
        asked = self._asked + num_frames
        if self._decoder is None or self._vocoder is None:
            raise ValueError("a sentence must be extended before it is stepped")
        if asked > self.num_ready_frames and not self.is_whole:
            raise ValueError(f"num_frames must be at most {self.num_ready_frames - self._asked}")
        stop = self._asked = min(asked, self.num_frames)
        if stop < self.num_frames or not self.is_whole:
            stop -= stop % GRAIN_FRAMES
        if stop < self._decoder.min_stop:
            return np.zeros(0, np.float32)
        pieces = [np.zeros(0, np.float32)]
        while self._decoder.position < stop:
            until = min(self._decoder.position + BLOCK_FRAMES, stop)
            pieces.append(self._vocoder.push(self._decoder.push(until)))
        return np.concatenate(pieces)

    def _check_first(self, num_frames: int, skip_frames: int) -> None:
        if num_frames < MIN_FRAMES:
            raise ValueError(f"the first piece must have at least {MIN_FRAMES} frames")
        if not 0 <= skip_frames <= num_frames:
            raise ValueError(f"skip_frames must be from 0 to {num_frames}, not {skip_frames}")

    def _lay_out(self, skip_frames: int) -> None:
        given = self._model.lay_out(self._taps, self._durations, self._f0, self._energy)
        if self._decoder is None or self._vocoder is None:
            self._skip_frames = skip_frames
            self._decoder = DecoderStream(self._model, given)
            self._vocoder = VocoderStream(self._f0, self._seed, self._shape, skip_frames)
        else:
            self._decoder.extend(given)
            self._vocoder.extend(self._f0)


def _check(durations: IntArray, f0: FloatArray, energy: FloatArray, room: int) -> None:
    if durations.ndim != 1 or not 0 < durations.size <= room or durations.min() < 1:
        raise ValueError(f"durations must be 1 to {room} values of at least 1, one for each id")
    num_frames = 2 * int(durations.sum())
    for name, curve in (("f0", f0), ("energy", energy)):
        if curve.shape != (num_frames,) or not np.isfinite(curve).all():
            raise ValueError(f"{name} must be {num_frames} finite values, two per unit of duration")
