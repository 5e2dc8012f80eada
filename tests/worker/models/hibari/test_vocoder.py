"""The vocoder alone, on spectra that no voice would make too."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.worker.models.hibari import float_reference
from worker.models.hibari.decoder import Spectra
from worker.models.hibari.pulses import HOP
from worker.models.hibari.vocoder import VocoderStream

NUM_FRAMES = 70


def _parts(f0: np.ndarray, level: float = -2.0) -> tuple[np.ndarray, ...]:
    """Random lh, theta, ln, lr, phi and the f0 given."""
    random = np.random.default_rng(3)
    draws = [random.standard_normal((f0.size, 601)) for _ in range(5)]
    return draws[0] + level, draws[1], draws[2] + level, draws[3] + level, 3 * draws[4], f0


def _spectra(parts: tuple[np.ndarray, ...]) -> Spectra:
    lh, theta, ln, lr, phi, _ = parts
    logs = np.minimum(np.concatenate([lh, ln, lr], axis=1), 7)
    return Spectra(
        np.exp(logs).astype(np.float32),
        np.tanh(theta).astype(np.float32),
        phi.astype(np.float32),
    )


def _rows(spectra: Spectra, start: int, stop: int) -> Spectra:
    return Spectra(
        spectra.magnitude[start:stop],
        spectra.harmonic_phase[start:stop],
        spectra.free_phase[start:stop],
    )


def _curve() -> np.ndarray:
    """Glides, unvoiced stretches, a voiced start and end, the lowest and highest of pitches."""
    f0 = np.concatenate(
        [
            np.linspace(90, 260, 20),
            np.zeros(9),
            [32, 91, 45],
            np.linspace(600, 50, 18),
            np.zeros(5),
            np.full(15, 199.0),
        ]
    )
    return f0.astype(np.float32)


CURVES = {
    "mixed": _curve(),
    "voiced": np.full(NUM_FRAMES, 220.5, np.float32),
    "unvoiced": np.zeros(NUM_FRAMES, np.float32),
    "shortest": np.array([0, 120, 130, 140, 0, 0], np.float32),
}


@pytest.mark.parametrize("name", CURVES)
def test_samples_are_those_of_the_plain_float64_vocoder(name: str) -> None:
    parts = _parts(CURVES[name])
    exact = float_reference.synthesise(parts, seed=5)
    got = VocoderStream(CURVES[name], 5).push(_spectra(parts))
    assert got.dtype == np.float32
    assert np.abs(got - exact).max() < 2e-6 * np.abs(exact).max()


@settings(max_examples=40, deadline=None)
@given(
    cuts=st.sets(st.integers(1, NUM_FRAMES - 1), max_size=10),
    name=st.sampled_from(["mixed", "voiced", "unvoiced"]),
    skip_frames=st.integers(0, NUM_FRAMES),
)
def test_samples_do_not_depend_on_the_pieces(cuts: set[int], name: str, skip_frames: int) -> None:
    spectra = _spectra(_parts(CURVES[name]))
    whole = VocoderStream(CURVES[name], 9).push(spectra)
    assert whole.size == HOP * NUM_FRAMES
    stream = VocoderStream(CURVES[name], 9, skip_frames=skip_frames)
    stops = [0, *sorted(cuts), NUM_FRAMES]
    pieces = [stream.push(_rows(spectra, a, b)) for a, b in itertools.pairwise(stops)]
    assert np.array_equal(np.concatenate(pieces), whole[HOP * skip_frames :])


def test_samples_follow_two_frames_behind() -> None:
    spectra = _spectra(_parts(CURVES["mixed"]))
    stream = VocoderStream(CURVES["mixed"], 0)
    sizes = [stream.push(_rows(spectra, k, k + 1)).size for k in range(NUM_FRAMES)]
    assert sizes == [0, 0, *[HOP] * (NUM_FRAMES - 3), 3 * HOP]
