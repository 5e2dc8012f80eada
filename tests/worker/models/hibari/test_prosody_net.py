"""The prosody half of a voice file."""

from __future__ import annotations

import numpy as np
import pytest

from tests.worker.models.hibari import bundled


@pytest.mark.parametrize("speed", [0.25, 0.8, 1.0, 1.7, 4.0])
@pytest.mark.parametrize("text", [bundled.SHORT, bundled.LONG])
def test_pitch_has_the_bits_of_the_library(text: str, speed: float) -> None:
    ids = bundled.ids(text)
    feed = {"ids": ids[None], "speed": np.array([speed], np.float32)}
    (f0,) = bundled.bare().sess.run(["f0"], feed)
    assert np.array_equal(bundled.prosody_net().run(ids, speed).f0, f0[0])


def test_curves_have_two_frames_for_each_unit_of_duration() -> None:
    frames = bundled.frames(bundled.LONG)
    assert frames.durations.shape == bundled.ids(bundled.LONG).shape
    assert frames.durations.min() >= 1
    assert frames.f0.shape == frames.energy.shape == (2 * frames.durations.sum(),)
    assert frames.durations.dtype == np.int32
    assert frames.f0.dtype == np.float32
    assert frames.energy.dtype == np.float32


def test_a_higher_speed_makes_fewer_frames() -> None:
    lengths = [bundled.frames(bundled.LONG, speed).f0.size for speed in (0.25, 0.5, 1.0, 2.0, 4.0)]
    assert lengths == sorted(set(lengths), reverse=True)


@pytest.mark.parametrize("speed", [0.24, 4.1, 0.0, -1.0, float("nan"), float("inf")])
def test_speeds_out_of_range_are_refused(speed: float) -> None:
    with pytest.raises(ValueError, match=r"speed must be from 0\.25 to 4"):
        bundled.prosody_net().run(bundled.ids(bundled.SHORT), speed)


@pytest.mark.parametrize("ids", [np.zeros(2, np.int64), np.zeros((1, 5), np.int64)])
def test_rows_without_a_phoneme_are_refused(ids: np.ndarray) -> None:
    with pytest.raises(ValueError, match="ids must be one row of at least 3"):
        bundled.prosody_net().run(ids, 1.0)
