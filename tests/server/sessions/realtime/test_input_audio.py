"""Audio on the session's clock."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from server.sessions.realtime.input_audio import InputAudio

RATE = 8000  # 8 samples a millisecond


def ramp(first_ms: int, num_ms: int) -> bytes:
    """Samples that tell their millisecond."""
    return np.repeat(np.arange(first_ms, first_ms + num_ms, dtype="<i2"), 8).tobytes()


def milliseconds(pcm: bytes) -> list[int]:
    return [int(value) for value in np.frombuffer(pcm, "<i2")[::8]]


def test_a_clip_is_what_was_said_then() -> None:
    audio = InputAudio(RATE, 1000)
    for start in range(0, 100, 10):
        audio.append(ramp(start, 10))
    clip = audio.clip(25, 47)
    assert milliseconds(clip.pcm) == list(range(25, 47))
    assert (clip.start_ms, clip.duration_ms) == (25, 22)


def test_positions_stay_when_audio_is_dropped() -> None:
    audio = InputAudio(RATE, 1000)
    audio.append(ramp(0, 100))
    audio.drop_before(60)
    assert (audio.start_ms, audio.end_ms, audio.held_ms) == (60, 100, 40)
    assert milliseconds(audio.clip(0, 70).pcm) == list(range(60, 70))
    audio.clear()
    audio.append(ramp(100, 20))
    assert milliseconds(audio.clip(0, 200).pcm) == list(range(100, 120))


def test_the_oldest_goes_when_there_is_too_much() -> None:
    audio = InputAudio(RATE, 50)
    audio.append(ramp(0, 40))
    audio.append(ramp(40, 40))
    assert audio.held_ms == 50
    assert milliseconds(audio.clip(0, 80).pcm) == list(range(30, 80))


def test_the_clock_goes_on_at_another_rate() -> None:
    audio = InputAudio(RATE, 1000)
    audio.append(ramp(0, 100))
    audio.change_rate(24000)
    audio.append(bytes(2 * 24 * 50))
    assert (audio.start_ms, audio.end_ms) == (100, 150)


@given(st.lists(st.integers(1, 30), max_size=20), st.integers(0, 300), st.integers(0, 300))
def test_any_cut_gives_whole_samples_in_their_place(
    lengths: list[int], first: int, length: int
) -> None:
    audio = InputAudio(RATE, 200)
    for num_ms in lengths:
        audio.append(ramp(audio.end_ms, num_ms))
    held = range(max(audio.end_ms - 200, 0), audio.end_ms)
    wanted = [ms for ms in held if first <= ms < first + length]
    assert milliseconds(audio.clip(first, first + length).pcm) == wanted
