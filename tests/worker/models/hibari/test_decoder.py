"""The streaming decoder."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.worker.models.hibari import bundled, float_reference
from worker.models.hibari.decoder import Decoder, DecoderStream, Spectra


@functools.cache
def _float_decoder() -> Decoder:
    return Decoder(bundled.voice(), None)


def _stream(decoder: Decoder, text: str, speed: float) -> DecoderStream:
    frames = bundled.frames(text, speed)
    given = decoder.prepare(bundled.ids(text), frames.durations, frames.f0, frames.energy)
    return DecoderStream(decoder, given)


def _joined(pieces: list[Spectra]) -> Spectra:
    return Spectra(
        np.concatenate([each.magnitude for each in pieces]),
        np.concatenate([each.harmonic_phase for each in pieces]),
        np.concatenate([each.free_phase for each in pieces]),
    )


@pytest.mark.parametrize("speed", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("text", [bundled.SHORT, bundled.LONG])
def test_the_float_decoder_is_the_voice_file_without_quantisation(text: str, speed: float) -> None:
    stream = _stream(_float_decoder(), text, speed)
    cuts = [*range(40, stream.num_frames, 40), stream.num_frames]
    got = _joined([stream.push(stop) for stop in cuts])
    lh, theta, ln, lr, phi, _ = float_reference.spectra(text, speed)
    logs = np.minimum(np.concatenate([lh, ln, lr], axis=1), 7)
    assert np.abs(np.log(got.magnitude) - logs).max() < 2e-4
    assert np.abs(got.harmonic_phase - np.tanh(theta)).max() < 2e-4
    assert np.abs(got.free_phase - phi).max() < 2e-4


@settings(max_examples=15, deadline=None)
@given(cuts=st.sets(st.integers(27, 150), min_size=1, max_size=6))
def test_frames_do_not_depend_on_the_pieces(cuts: set[int]) -> None:
    decoder = bundled.code2wav().decoder
    whole = _stream(decoder, bundled.SHORT, 1.0)
    expected = whole.push(whole.num_frames)
    stream = _stream(decoder, bundled.SHORT, 1.0)
    stops = sorted(cut for cut in cuts if cut < stream.num_frames)
    got = _joined([stream.push(stop) for stop in [*stops, stream.num_frames]])
    assert np.array_equal(got.magnitude, expected.magnitude)
    assert np.array_equal(got.harmonic_phase, expected.harmonic_phase)
    assert np.array_equal(got.free_phase, expected.free_phase)


def test_frames_come_out_as_late_as_stated() -> None:
    stream = _stream(_float_decoder(), bundled.SHORT, 1.0)
    assert stream.push(60).free_phase.shape[0] == 60 - stream.lag
    assert stream.push(61).free_phase.shape[0] == 1
    assert stream.push(stream.num_frames).free_phase.shape[0] == stream.num_frames - 61 + stream.lag


def test_a_first_piece_of_the_least_size_is_enough() -> None:
    stream = _stream(_float_decoder(), bundled.SHORT, 1.0)
    assert stream.push(stream.min_stop).free_phase.shape[0] == stream.min_stop - stream.lag
