"""Speech for tests of hearing: spoken by the voice in the hibari wheel, once per test run."""

from __future__ import annotations

import functools
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import soxr

RATE = 16_000
SENTENCES = (
    "The train leaves at half past nine from the station near the river.",
    "Could you tell me how to get to the museum, please?",
    "My sister bought a red coat and two pairs of shoes last Saturday.",
    "The weather will be cold and windy tomorrow, with some rain in the afternoon.",
)

Samples = npt.NDArray[np.float32]


@functools.cache
def _voice() -> Any:
    from hibari import Hibari

    return Hibari()


@functools.cache
def spoken(text: str) -> Samples:
    """``text`` as float32 [samples] at 16 kHz, mono, the same every time. Do not write to it."""
    audio = soxr.resample(_voice()(text, seed=1), 24_000, RATE)
    return cast(Samples, np.asarray(audio, np.float32))


def silence(seconds: float) -> Samples:
    return np.zeros(round(seconds * RATE), np.float32)


def noise(seconds: float, level: float = 0.1) -> Samples:
    """White noise of that RMS."""
    generator = np.random.default_rng(1)
    return (level * generator.standard_normal(round(seconds * RATE))).astype(np.float32)


@functools.cache
def conversation() -> Samples:
    """The sentences, with a second of silence before each and at the end."""
    parts = [part for sentence in SENTENCES for part in (silence(1.0), spoken(sentence))]
    return np.concatenate([*parts, silence(1.0)])
