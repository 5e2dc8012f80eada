"""Pauses between sentences."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.silence import Word, longest_silence_s, loud_span, pauses
from benchmarks.speech_client import SAMPLE_RATE

TEXT = "One, two. Three!"


def tone(seconds: float) -> list[int]:
    times = np.arange(round(seconds * SAMPLE_RATE)) / SAMPLE_RATE
    return [round(8000 * math.sin(2 * math.pi * 200 * time)) for time in times]


def hush(seconds: float) -> list[int]:
    return [3] * round(seconds * SAMPLE_RATE)


def test_the_silence_behind_each_sentence_but_the_last_is_found() -> None:
    pcm = np.array(
        tone(0.3) + hush(0.2) + tone(0.3) + hush(0.7) + tone(0.4) + hush(0.9), np.int16
    ).tobytes()
    words = [Word(0, 300, 0, 4), Word(500, 800, 5, 9), Word(1500, 1900, 10, 16)]

    (pause,) = pauses(pcm, words, TEXT)

    assert pause.silent_s == pytest.approx(0.7, abs=0.01)
    assert (pause.first, pause.last) == (SAMPLE_RATE // 2, round(1.9 * SAMPLE_RATE))


def test_sound_throughout_is_no_pause() -> None:
    assert longest_silence_s(np.array(tone(0.5), np.int16)) == 0


def test_audio_without_words_has_no_pauses() -> None:
    assert pauses(np.array(tone(0.1), np.int16).tobytes(), [], TEXT) == []


def test_speech_is_from_the_first_loud_frame_to_the_last() -> None:
    pcm = np.array(hush(0.1) + tone(0.2) + hush(0.3) + tone(0.1) + hush(0.5), np.int16)
    assert loud_span(pcm) == (2400, round(0.7 * SAMPLE_RATE) - 1)


def test_in_silence_there_is_no_speech() -> None:
    with pytest.raises(ValueError, match="nothing but silence"):
        loud_span(np.array(hush(0.5), np.int16))
