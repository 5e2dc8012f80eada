"""The acoustic core of a hibari voice: prosody, then samples, in pieces of any size.

Two stages. ``ProsodyNet`` says how a sentence is spoken; ``Code2Wav`` makes the samples, and may
begin before it has decoded the whole sentence. Whatever pieces a sentence is taken in, its samples
have the same bits.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from worker.models.hibari.calibrate import load_reach
from worker.models.hibari.decoder import Decoder, DecoderStream
from worker.models.hibari.graphs import VoiceGraph, read_voice
from worker.models.hibari.noise import load_noise
from worker.models.hibari.prosody_net import MIN_IDS, ProsodyFrames, ProsodyNet, bundled_voice
from worker.models.hibari.pulses import HOP, SAMPLE_RATE
from worker.models.hibari.shape import NEUTRAL, VoiceShape
from worker.models.hibari.vocoder import VocoderStream

__all__ = [
    "HOP",
    "NEUTRAL",
    "SAMPLE_RATE",
    "Code2Wav",
    "ProsodyFrames",
    "ProsodyNet",
    "SentenceStream",
    "VoiceShape",
]

FloatArray = npt.NDArray[np.float32]

GRAIN_FRAMES = 8
"""Frames go into the decoder in multiples of this, so that no call is made for one or two."""

BLOCK_FRAMES = 160
"""Most frames in one call of the decoder: its widest activations still fit a 2 MB cache. Smaller
blocks read the weights too often: steps of 160 frames cost 5 % less than steps of 96, and 17 % less
than steps of 48."""


class Code2Wav:
    """Makes samples from prosody. Thread-safe: its streams may be stepped on different threads."""

    def __init__(self, voice: VoiceGraph) -> None:
        self.decoder = Decoder(voice, load_reach(voice))
        load_noise()

    @classmethod
    def load(cls, model_path: str | Path | None = None) -> Code2Wav:
        """Read a voice file, the one in the hibari wheel by default.

        Raises:
            ConfigError: the file is not a hibari voice.
        """
        return cls(read_voice(model_path or bundled_voice()))

    def open(
        self,
        ids: npt.NDArray[np.int64],
        durations: npt.NDArray[np.int32],
        f0: FloatArray,
        energy: FloatArray,
        *,
        seed: int,
        shape: VoiceShape = NEUTRAL,
        skip_frames: int = 0,
    ) -> SentenceStream:
        """Begin a sentence.

        Args:
            ids: [L] phoneme ids with both pads.
            durations: [L] units of 25 ms, at least 1 each.
            f0: [F] Hz, F = 2 * sum(durations).
            energy: [F].
            seed: of the noise; the same seed gives the same samples.
            shape: how the voice is changed.
            skip_frames: frames at the beginning whose samples are left out, 0 to F.

        Raises:
            ValueError: an argument is not allowed; the message names it.
        """
        _check(ids, durations, f0, energy, skip_frames)
        f0 = shape.apply_to_pitch(f0)
        decoder = DecoderStream(self.decoder, self.decoder.prepare(ids, durations, f0, energy))
        return SentenceStream(decoder, VocoderStream(f0, seed, shape, skip_frames), skip_frames)


class SentenceStream:
    """One sentence on its way to samples. One thread at a time."""

    def __init__(self, decoder: DecoderStream, vocoder: VocoderStream, skip_frames: int) -> None:
        self._decoder = decoder
        self._vocoder = vocoder
        self._asked = 0
        self.num_frames = decoder.num_frames
        self.num_samples = HOP * (self.num_frames - skip_frames)
        """Samples that the steps return altogether."""

    @property
    def finished(self) -> bool:
        """Whether every sample was returned."""
        return bool(self._decoder.position == self.num_frames)

    def step(self, num_frames: int) -> FloatArray:
        """Decode up to ``num_frames`` frames more; returns the samples that became final.

        The result is empty while the look-ahead of decoder and vocoder fills or skipped frames
        pass. The step that takes in the last frame returns everything that remains.

        Raises:
            ValueError: num_frames is less than 1.
        """
        if num_frames < 1:
            raise ValueError(f"num_frames must be at least 1, not {num_frames}")
        self._asked = min(self._asked + num_frames, self.num_frames)
        stop = self._asked
        if stop < self.num_frames:
            stop -= stop % GRAIN_FRAMES
        if stop < self._decoder.min_stop:
            return np.zeros(0, np.float32)
        pieces = [np.zeros(0, np.float32)]
        while self._decoder.position < stop:
            until = min(self._decoder.position + BLOCK_FRAMES, stop)
            pieces.append(self._vocoder.push(self._decoder.push(until)))
        return np.concatenate(pieces)


def _check(
    ids: npt.NDArray[np.int64],
    durations: npt.NDArray[np.int32],
    f0: FloatArray,
    energy: FloatArray,
    skip_frames: int,
) -> None:
    if ids.ndim != 1 or ids.size < MIN_IDS:
        raise ValueError(f"ids must be one row of at least {MIN_IDS}, not of shape {ids.shape}")
    if durations.shape != ids.shape or durations.min() < 1:
        raise ValueError(f"durations must be {ids.size} values of at least 1, one for each id")
    num_frames = 2 * int(durations.sum())
    for name, curve in (("f0", f0), ("energy", energy)):
        if curve.shape != (num_frames,) or not np.isfinite(curve).all():
            raise ValueError(f"{name} must be {num_frames} finite values, two per unit of duration")
    if not 0 <= skip_frames <= num_frames:
        raise ValueError(f"skip_frames must be from 0 to {num_frames}, not {skip_frames}")
