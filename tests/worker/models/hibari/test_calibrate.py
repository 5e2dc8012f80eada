"""How far activations reach: kept for the bundled voice, measured for others."""

from __future__ import annotations

import dataclasses
import json

import numpy as np

from tests.worker.models.hibari import bundled, float_reference
from worker.models.hibari.acoustic import Code2Wav
from worker.models.hibari.calibrate import (
    CALIBRATION_PATH,
    decoder_digest,
    load_reach,
    measure_reach,
)
from worker.models.hibari.graphs import VoiceGraph


def _another_voice() -> VoiceGraph:
    """The bundled voice with one weight of its decoder changed a little."""
    voice = bundled.voice()
    weight = voice.decoder.head.weight.copy()
    weight[0, 0] += 0.004
    head = dataclasses.replace(voice.decoder.head, weight=weight)
    return dataclasses.replace(voice, decoder=dataclasses.replace(voice.decoder, head=head))


def test_the_file_belongs_to_the_bundled_voice() -> None:
    stored = json.loads(CALIBRATION_PATH.read_text(encoding="utf-8"))
    assert stored["decoder"] == decoder_digest(bundled.voice().decoder)


def test_another_voice_is_measured_when_it_is_loaded() -> None:
    other = _another_voice()
    assert decoder_digest(other.decoder) != decoder_digest(bundled.voice().decoder)
    kept, measured = load_reach(bundled.voice()), load_reach(other)
    # The few sentences of load time reach nearly as far as the many of the file, never further.
    for name, reach in kept.items():
        assert np.all(measured[name] <= reach + 0.01)
        assert measured[name].max() > 0.6 * reach.max()


def test_another_voice_is_as_near_to_float_as_the_voice_file() -> None:
    frames = bundled.frames(bundled.QUESTION)
    given = (bundled.ids(bundled.QUESTION), frames.durations, frames.f0, frames.energy)
    stream = Code2Wav(_another_voice()).open(*given, seed=1)
    samples = stream.step(stream.num_frames)
    exact = float_reference.synthesise(float_reference.spectra(bundled.QUESTION, 1.0), 1)
    parts = float_reference.shipped_spectra(bundled.QUESTION, 1.0)
    shipped = bundled.snr_db(exact, float_reference.synthesise(parts, 1))
    assert bundled.snr_db(exact, samples) > shipped - 1


def test_reach_covers_sentences_it_was_not_measured_on() -> None:
    """Clipping is what distorts most, so next to nothing may lie beyond the reach."""
    kept = load_reach(bundled.voice())
    unseen = bundled.ids("My uncle's vineyard yields superb grapes; taste, judge, then choose!")
    for name, reach in measure_reach(bundled.voice(), [unseen.tolist()]).items():
        assert np.mean(reach > 1.1 * kept[name]) < 0.01
        assert reach.max() < 1.1 * kept[name].max()
