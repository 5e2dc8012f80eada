"""The voice in the hibari wheel and sentences for it, loaded once per test run."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt
from hibari import Hibari

from worker.models.hibari.acoustic import Code2Wav, SentenceStream
from worker.models.hibari.graphs import VoiceGraph, read_voice
from worker.models.hibari.prosody_net import ProsodyFrames, ProsodyNet, bundled_voice
from worker.models.hibari.shape import NEUTRAL, VoiceShape

SHORT = "Good morning, Anna."
LONG = "A gentle breeze carried the scent of pine across the quiet valley, and nobody spoke."
QUESTION = "Could you tell me where the nearest station is?"

FloatArray = npt.NDArray[np.float32]


@functools.cache
def voice() -> VoiceGraph:
    return read_voice(bundled_voice())


@functools.cache
def prosody_net() -> ProsodyNet:
    return ProsodyNet(voice())


@functools.cache
def code2wav() -> Code2Wav:
    return Code2Wav(voice())


@functools.cache
def bare() -> Any:
    """The library itself."""
    return Hibari()


@functools.cache
def ids(text: str) -> npt.NDArray[np.int64]:
    return np.asarray(bare().ids(bare().phonemize(text)[0]), np.int64)


@functools.cache
def frames(text: str, speed: float = 1.0) -> ProsodyFrames:
    return prosody_net().run(ids(text), speed)


def open_stream(
    text: str,
    speed: float = 1.0,
    *,
    seed: int = 1,
    shape: VoiceShape = NEUTRAL,
    skip_frames: int = 0,
) -> SentenceStream:
    given = frames(text, speed)
    return code2wav().open(
        ids(text),
        given.durations,
        given.f0,
        given.energy,
        seed=seed,
        shape=shape,
        skip_frames=skip_frames,
    )


def take_all(stream: SentenceStream, plan: list[int]) -> FloatArray:
    """All samples of a stream, stepped by the plan over and over."""
    pieces = []
    while not stream.finished:
        pieces += [stream.step(num_frames) for num_frames in plan]
    return np.concatenate(pieces)


def whole(text: str, speed: float = 1.0, **options: Any) -> FloatArray:
    stream = open_stream(text, speed, **options)
    return stream.step(stream.num_frames)


def snr_db(wanted: npt.NDArray[Any], got: npt.NDArray[Any]) -> float:
    """Energy of ``wanted`` over that of the difference."""
    exact = wanted.astype(np.float64)
    return float(10 * np.log10(np.sum(exact**2) / np.sum((exact - got) ** 2)))
