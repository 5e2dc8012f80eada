"""Where speech begins, ends, and is silent between two sentences, found by its energy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

import numpy as np

from benchmarks.speech_client import SAMPLE_RATE

_FRAME_S = 0.005
# Of full scale. Between sentences the voice is below -60 dB, in a word's quietest sound above -40.
_QUIET_DB = -45.0
_SENTENCE_ENDS = ".!?"


@dataclass(frozen=True, slots=True)
class Word:
    """When a word is spoken, in ms of the audio, and where it is in the text."""

    start_ms: float
    end_ms: float
    start_char: int
    end_char: int


@dataclass(frozen=True, slots=True)
class Pause:
    """The silence behind a sentence; ``first`` and ``last`` sample of the place where it is."""

    first: int
    last: int
    silent_s: float


def pauses(pcm: bytes | bytearray, words: Sequence[Word], text: str) -> list[Pause]:
    """The pause behind each sentence but the last. ``pcm``: int16 mono at 24 kHz."""
    samples = np.frombuffer(pcm, np.int16)
    found = []
    for word, following in pairwise(words):
        if text[: word.end_char].rstrip("\"')")[-1:] in tuple(_SENTENCE_ENDS):
            first, last = (
                round(ms * SAMPLE_RATE / 1000) for ms in (word.start_ms, following.end_ms)
            )
            found.append(Pause(first, last, longest_silence_s(samples[first:last])))
    return found


def longest_silence_s(samples: np.ndarray[tuple[int], np.dtype[np.int16]]) -> float:
    """The longest stretch, in seconds, of frames below the threshold; int16 [n] at 24 kHz."""
    is_quiet = _quiet_frames(samples)
    lengths = (sum(1 for _ in run) for quiet, run in groupby(is_quiet.tolist()) if quiet)
    return max(lengths, default=0) * _FRAME_S


def loud_span(samples: np.ndarray[tuple[int], np.dtype[np.int16]]) -> tuple[int, int]:
    """The first sample of the first frame that is not silent, and the last of the last one.

    ``samples`` int16 [n] at 24 kHz. Raises ``ValueError`` if all of it is silent.
    """
    is_quiet = _quiet_frames(samples)
    loud = np.flatnonzero(~is_quiet)
    if not len(loud):
        raise ValueError("there is nothing but silence")
    size = round(_FRAME_S * SAMPLE_RATE)
    return int(loud[0]) * size, (int(loud[-1]) + 1) * size - 1


def _quiet_frames(
    samples: np.ndarray[tuple[int], np.dtype[np.int16]],
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which of the whole frames are below the threshold."""
    size = round(_FRAME_S * SAMPLE_RATE)
    frames = samples[: len(samples) // size * size].reshape(-1, size).astype(np.float64)
    limit = 32768.0 * 10 ** (_QUIET_DB / 20)
    return np.asarray(np.sqrt(np.mean(frames**2, axis=1)) < limit)
