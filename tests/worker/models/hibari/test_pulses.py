"""The pulse train."""

from __future__ import annotations

import numpy as np
import pytest
from hibari import dsp
from hypothesis import given
from hypothesis import strategies as st

from tests.worker.models.hibari import bundled
from worker.models.hibari.pulses import HOP, PulseTrain


@pytest.mark.parametrize("text", [bundled.SHORT, bundled.LONG])
def test_pulses_are_those_of_the_library(text: str) -> None:
    f0 = bundled.frames(text).f0
    exact = dsp.pulses(f0)
    pulses = PulseTrain(f0).take(f0.size).reshape(-1)
    assert np.abs(pulses - exact).max() < 1e-5 * np.abs(exact).max()


@given(st.sets(st.integers(1, 39)))
def test_pulses_do_not_depend_on_the_pieces(cuts: set[int]) -> None:
    f0 = np.concatenate([np.linspace(0, 220, 20), np.linspace(90, 30, 20)]).astype(np.float32)
    train = PulseTrain(f0)
    pieces = [train.take(stop) for stop in [*sorted(cuts), 40]]
    assert np.array_equal(np.concatenate(pieces), PulseTrain(f0).take(40))


def test_a_steady_pitch_makes_a_harmonic_at_each_multiple() -> None:
    train = PulseTrain(np.full(80, 200, np.float32))
    spectrum = np.abs(np.fft.rfft(train.take(80).reshape(-1)))[: 12000 + 1]
    peaks = np.flatnonzero(spectrum > spectrum.max() / 2) * 24000 / (80 * HOP)
    assert peaks.tolist() == [200.0 * k for k in range(1, 56)]


def test_pulses_are_zero_where_unvoiced() -> None:
    train = PulseTrain(np.array([0, 0, 0, 200, 200, 0, 0, 0], np.float32))
    pulses = train.take(8)
    assert not pulses[[0, 1, 6, 7]].any()
    assert pulses[3:5].any(axis=1).all()
