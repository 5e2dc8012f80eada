"""The voices in voices.yaml: whole, distinct, equally loud, never clipped."""

from __future__ import annotations

import functools
from itertools import combinations

import numpy as np
import numpy.typing as npt
import pytest

from benchmarks.voice_measures import envelope_db, formant_shift, loudness_lufs, median_f0_hz
from engine.pipeline import Voice
from tests.worker.models.hibari import bundled
from worker.models.hibari.acoustic import SAMPLE_RATE
from worker.models.hibari.adapter import all_voices
from worker.models.hibari.shape import VoiceShape

OPENAI_VOICES = {
    "alloy", "ash", "ballad", "coral", "echo", "fable", "onyx", "nova", "sage", "shimmer", "verse",
    "marin", "cedar",
}  # fmt: skip
TEXTS = (
    "We flew from London to New York in seven hours, and it rained all the way.",
    "Could you tell me where the nearest station is?",
    "My sister lives in a small town by the sea; her garden is full of roses.",
    "The meeting was short, but nobody remembers what was said.",
)
LOUDNESS_LUFS = -24.0

ALL = all_voices()
DERIVED = [voice for voice in ALL if "model_file" not in voice.options]


@functools.cache
def shape(voice_id: str) -> VoiceShape:
    return VoiceShape(**_voice(voice_id).options.get("shape", {}))


def _voice(voice_id: str) -> Voice:
    return next(voice for voice in ALL if voice.id == voice_id)


def _speed(voice: Voice) -> float:
    return float(voice.options.get("speed", 1.0))


@functools.cache
def spoken(voice_id: str) -> npt.NDArray[np.float32]:
    speed = _speed(_voice(voice_id))
    pieces = [bundled.whole(text, speed, shape=shape(voice_id)) for text in TEXTS]
    return np.concatenate(pieces)


def test_the_models_own_voice_is_the_default_and_keeps_its_shape() -> None:
    own = shape(ALL[0].id)
    assert ALL[0].id == "heart"
    assert VoiceShape(gain_db=own.gain_db) == own


def test_ids_and_aliases_are_unique_and_lower_case() -> None:
    names = [name for voice in ALL for name in (voice.id, *voice.aliases)]
    assert len(set(names)) == len(names)
    assert [name.casefold() for name in names] == names


def test_each_of_openais_names_has_a_voice_of_its_own() -> None:
    assert {alias for voice in DERIVED for alias in voice.aliases} == OPENAI_VOICES
    assert all(len(voice.aliases) == 1 for voice in DERIVED)


def test_options_are_known_ones() -> None:
    for voice in ALL:
        assert voice.options.keys() <= {"shape", "speed", "model_file"}, voice.id
        assert 0.8 <= _speed(voice) <= 1.25, voice.id


def test_women_and_men_are_apart_in_pitch() -> None:
    ratios = {
        gender: [shape(voice.id).pitch_ratio for voice in DERIVED if voice.gender == gender]
        for gender in ("female", "male")
    }
    assert min(map(len, ratios.values())) >= 5
    assert max(ratios["male"]) < min(ratios["female"])


def _features(voice: Voice) -> npt.NDArray[np.float64]:
    """Pitch, formants, pace, melody, brightness and breath, in steps that are easily heard."""
    own = shape(voice.id)
    return np.array(
        [
            np.log2(own.pitch_ratio) * 12 / 1.5,  # semitones
            np.log(own.formant_ratio) / 0.04,
            np.log(_speed(voice)) / 0.07,
            own.pitch_range / 0.3,
            own.tilt_db / 3,
            own.noise_db / 4,
        ]
    )


@pytest.mark.parametrize(
    ("one", "other"), list(combinations(DERIVED, 2)), ids=lambda voice: voice.id
)
def test_any_two_voices_are_easily_told_apart(one: Voice, other: Voice) -> None:
    assert np.linalg.norm(_features(one) - _features(other)) > 1.3


@pytest.mark.model
@pytest.mark.parametrize("voice", DERIVED, ids=lambda voice: voice.id)
def test_pitch_and_formants_are_those_that_the_shape_promises(voice: Voice) -> None:
    own, audio, original = shape(voice.id), spoken(voice.id), spoken("heart")
    pitch_ratio = median_f0_hz(audio, SAMPLE_RATE) / median_f0_hz(original, SAMPLE_RATE)
    shift = formant_shift(envelope_db(original, SAMPLE_RATE), envelope_db(audio, SAMPLE_RATE))

    assert pitch_ratio == pytest.approx(own.pitch_ratio, rel=0.1)
    assert shift == pytest.approx(own.formant_ratio, abs=0.05)


@pytest.mark.model
@pytest.mark.parametrize("voice", DERIVED, ids=lambda voice: voice.id)
def test_every_voice_is_as_loud_as_the_others_and_is_not_clipped(voice: Voice) -> None:
    audio = spoken(voice.id)

    assert loudness_lufs(audio, SAMPLE_RATE) == pytest.approx(LOUDNESS_LUFS, abs=1.0)
    assert np.abs(audio).max() < 1.0
