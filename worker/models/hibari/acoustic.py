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
from worker.models.hibari.decoder import Decoder
from worker.models.hibari.graphs import VoiceGraph, read_voice
from worker.models.hibari.noise import load_noise
from worker.models.hibari.prosody_net import ProsodyFrames, ProsodyNet, bundled_voice
from worker.models.hibari.pulses import HOP, SAMPLE_RATE
from worker.models.hibari.sentence_stream import SentenceStream
from worker.models.hibari.shape import NEUTRAL, VoiceShape

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
        sentence = SentenceStream(self.decoder, ids, seed=seed, shape=shape)
        if durations.shape != ids.shape:
            raise ValueError(f"durations must be {ids.size} values, one for each id")
        sentence.extend(durations, f0, energy, skip_frames=skip_frames)
        return sentence

    def begin(
        self,
        ids: npt.NDArray[np.int64],
        *,
        seed: int,
        shape: VoiceShape = NEUTRAL,
        mean_hz: float | None = None,
    ) -> SentenceStream:
        """Begin a sentence whose prosody comes piece by piece (``SentenceStream.extend``).

        Args as for ``open``; ``mean_hz`` is the pitch from which the shape's ``pitch_range``
        counts, since the sentence's own mean is not known in time.
        """
        return SentenceStream(self.decoder, ids, seed=seed, shape=shape, mean_hz=mean_hz)
