"""What a request resolves to."""

from __future__ import annotations

from typing import Any

import pytest

from engine.pipeline import load_pipeline
from server.audio.formats import AudioFormat
from server.catalog import ModelCatalog
from server.schemas.speech import SpeechRequest
from server.speech_plan import Delivery, SpeechPlan, plan_speech
from tests.server.fake_engine import PIPELINE, FakeEngine


def plan(**fields: Any) -> SpeechPlan:
    request = SpeechRequest.model_validate({"input": "Hello"} | fields)
    return plan_speech(request, FakeEngine(), ModelCatalog(PIPELINE))


@pytest.mark.parametrize(
    ("fields", "delivery"),
    [
        ({}, Delivery.STREAM),
        ({"response_format": "pcm"}, Delivery.STREAM),
        ({"response_format": "wav"}, Delivery.BUFFER_IF_SHORT),
        ({"response_format": "flac"}, Delivery.BUFFER_IF_SHORT),
        ({"stream": True}, Delivery.EVENTS),
        ({"stream": True, "response_format": "wav"}, Delivery.EVENTS),
        ({"stream": False}, Delivery.COMPLETE),
        ({"stream_format": "audio", "response_format": "wav"}, Delivery.STREAM),
        ({"stream_format": "audio", "stream": True}, Delivery.STREAM),
        ({"stream_format": "sse", "stream": False}, Delivery.EVENTS),
        ({"stream_format": "sse", "model": "tts-1"}, Delivery.EVENTS),
        ({"timestamp_granularities": ["word"]}, Delivery.WITH_WORDS),
        ({"timestamp_granularities": ["word"], "stream": False}, Delivery.WITH_WORDS),
        ({"timestamp_granularities": ["word"], "stream": True}, Delivery.EVENTS),
        ({"timestamp_granularities": ["word"], "stream_format": "sse"}, Delivery.EVENTS),
    ],
)
def test_the_delivery_follows_the_request(fields: dict[str, Any], delivery: Delivery) -> None:
    assert plan(**fields).delivery is delivery


NULLS = (
    *("model", "voice", "instructions", "response_format", "speed", "stream_format", "stream"),
    *("seed", "sample_rate", "language", "timestamp_granularities"),
    *("temperature", "top_p", "top_k", "guidance_scale"),
)


@pytest.mark.parametrize("field", NULLS)
def test_null_is_the_same_as_absent(field: str) -> None:
    assert plan(**{field: None}) == plan()


@pytest.mark.parametrize("value", ["", " ", "None", "none"])
def test_clients_words_for_no_instructions_are_none(value: str) -> None:
    assert plan(instructions=value).prompt["instructions"] is None


@pytest.mark.parametrize("value", ["", "auto", "Auto"])
def test_clients_words_for_any_language_are_none(value: str) -> None:
    assert plan(language=value).prompt["language"] is None


@pytest.mark.parametrize(
    ("voice", "resolved"),
    [
        ("anna", "anna"),
        ("alloy", "anna"),
        ("Onyx", "ben"),
        ({"id": "ben", "name": "x"}, "ben"),
        (None, "anna"),
    ],
)
def test_a_voice_resolves_to_its_id(voice: object, resolved: str) -> None:
    assert plan(voice=voice).prompt["voice"] == resolved


def test_without_a_seed_the_pipelines_sampling_is_left_alone() -> None:
    assert plan().sampling is None


def test_sampling_goes_to_the_language_model_and_the_seed_to_every_stage() -> None:
    engine = FakeEngine()
    engine.pipeline = load_pipeline("hibari-talker")
    request = SpeechRequest.model_validate({"input": "Hi", "seed": 4, "top_k": 9, "top_p": 0.5})
    sampling = plan_speech(request, engine, ModelCatalog(engine.pipeline)).sampling
    assert sampling is not None
    talker, code2wav = sampling
    assert (talker.seed, talker.top_k, talker.top_p, talker.temperature) == (4, 9, 0.5, None)
    assert (code2wav.seed, code2wav.top_k, code2wav.top_p) == (4, None, None)


@pytest.mark.parametrize("name", ["temperature", "top_p", "guidance_scale"])
def test_without_a_language_model_the_first_stage_gets_what_it_must_refuse(name: str) -> None:
    sampling = plan(**{name: 1}).sampling
    assert sampling is not None
    assert [getattr(params, name) for params in sampling] == [1.0] + [None] * (len(sampling) - 1)


@pytest.mark.parametrize(("speed", "value"), [(0.25, 0.25), (4, 4.0), (1, 1.0)])
def test_the_ends_of_the_speed_range_are_in_it(speed: float, value: float) -> None:
    assert plan(speed=speed).prompt["speed"] == value


@pytest.mark.parametrize("fmt", list(AudioFormat))
@pytest.mark.parametrize("rate", [8000, 48000])
def test_the_ends_of_the_rate_range_are_in_it(fmt: AudioFormat, rate: int) -> None:
    assert plan(response_format=fmt.value, sample_rate=rate).sample_rate == rate


@pytest.mark.parametrize(("num_chars", "tokens"), [(1, 1), (4, 1), (5, 2)])
def test_input_tokens_are_fours_of_characters(num_chars: int, tokens: int) -> None:
    assert plan(input="a" * num_chars).num_input_tokens == tokens


@pytest.mark.parametrize(("audio_s", "tokens"), [(0.001, 1), (0.05, 1), (0.051, 2), (5.05, 101)])
def test_output_tokens_are_fifties_of_milliseconds(audio_s: float, tokens: int) -> None:
    assert plan().num_output_tokens(audio_s) == tokens
