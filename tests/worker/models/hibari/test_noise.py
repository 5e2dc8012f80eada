"""The noise of a sentence."""

from __future__ import annotations

import numpy as np

from worker.models.hibari.noise import noise


def test_noise_is_white_and_normal() -> None:
    values = noise(1, 400)
    assert abs(values.mean()) < 0.01
    assert abs(values.std() - 1) < 0.01
    assert np.abs(np.corrcoef(values[:40]) - np.eye(40)).max() < 0.15


def test_noise_of_a_frame_does_not_depend_on_the_length_of_the_sentence() -> None:
    assert np.array_equal(noise(77, 10), noise(77, 500)[:10])
    assert not np.array_equal(noise(77, 10), noise(78, 10))
