"""Sentences with tokens that need no language model: the teacher's own."""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

from tests.worker.models.hibari import bundled
from worker.models.hibari.contour_net import ContourNet
from worker.models.hibari_talker.phoneme_pitch import phoneme_pitches
from worker.models.hibari_talker.tokens import MAX_DURATION, prosody_token


@functools.cache
def net() -> ContourNet:
    return ContourNet(bundled.voice())


def tokens(text: str, *, stretch: float = 1.0, semitones: float = 0.0) -> list[int]:
    """What the teacher would have written, its durations and pitch changed."""
    frames = bundled.frames(text)
    pitches = phoneme_pitches(frames.durations, frames.f0) + semitones
    rounded = np.clip(np.rint(np.nan_to_num(pitches)), 0, 31).astype(int)
    durations = np.clip(np.rint(frames.durations * stretch), 1, MAX_DURATION).astype(int)
    return [prosody_token(*pair) for pair in zip(durations.tolist(), rounded.tolist(), strict=True)]


def mean_semitones(f0: npt.NDArray[np.float32]) -> float:
    """Of the voiced frames."""
    return float(12 * np.log2(f0[f0 > 70]).mean())
