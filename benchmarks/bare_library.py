"""The reference: the hibari-tts library itself, in this process, without any server."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol, cast

import numpy as np
import numpy.typing as npt

from benchmarks.speech_client import SAMPLE_RATE

FloatArray = npt.NDArray[np.float32]


class _Voice(Protocol):
    def __call__(self, text: str) -> FloatArray: ...

    def stream(self, text: str) -> _Stream: ...


class _Stream(Protocol):
    def __next__(self) -> FloatArray: ...


@dataclass(frozen=True, slots=True)
class BareBurst:
    """Texts spoken, seconds they took, seconds of audio they made."""

    num_texts: int
    wall_s: float
    audio_s: float


class BareLibrary:
    """One onnxruntime session with one thread, as the library makes it."""

    def __init__(self) -> None:
        from hibari import Hibari

        self._voice = cast(_Voice, Hibari())
        self._voice("Good morning, this is a sentence to warm up.")

    def speak(self, text: str) -> FloatArray:
        """float32 [samples] at 24 kHz."""
        return self._voice(text)

    def speak_all(self, texts: Sequence[str], num_threads: int) -> BareBurst:
        """All texts, ``num_threads`` at a time."""
        started = time.perf_counter()
        with ThreadPoolExecutor(num_threads) as threads:
            num_samples = sum(threads.map(lambda text: len(self._voice(text)), texts))
        wall_s = time.perf_counter() - started
        return BareBurst(len(texts), wall_s, num_samples / SAMPLE_RATE)

    def ttfa_s(self, text: str) -> float:
        """Seconds until ``stream`` gives its first array: the first sentence, whole."""
        started = time.perf_counter()
        next(self._voice.stream(text))
        return time.perf_counter() - started
