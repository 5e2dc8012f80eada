"""What a session's orders come to: the sound of its turns, as a model hears it."""

from __future__ import annotations

import numpy as np
import pytest

from server.sessions.realtime.input_audio import Clip
from server.talk.session_orders import read_sounds


@pytest.mark.parametrize("rate", [8000, 24_000])
def test_a_turn_is_heard_at_sixteen_kilohertz_as_loud_as_it_was(rate: int) -> None:
    times = np.arange(rate) / rate
    tone = np.rint(8000 * np.sin(2 * np.pi * 440 * times)).astype("<i2")
    (sound,) = read_sounds([Clip(tone.tobytes(), rate, 0)])
    assert (sound.dtype.str, len(sound)) == ("<i2", 16_000)
    middle = sound[4000:12_000].astype(float)
    expected = 8000 * np.sin(2 * np.pi * 440 * np.arange(4000, 12_000) / 16_000)
    assert np.abs(middle - expected).max() < 40


@pytest.mark.parametrize("num_samples", [1, 2400])
def test_a_turn_that_is_too_short_to_be_heard_has_silence_behind_it(num_samples: int) -> None:
    pcm = np.full(num_samples, 900, "<i2").tobytes()
    (sound,) = read_sounds([Clip(pcm, 24_000, 0)])
    assert len(sound) == 1600
