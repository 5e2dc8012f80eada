"""What conversations are refused before they begin: by the shipped pipelines' own checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from engine.async_omni_engine import AsyncOmniEngine
from engine.errors import InvalidRequestError
from engine.pipeline import load_pipeline
from server.talk.abilities import TalkAbilities


def engine(name: str) -> AsyncOmniEngine:
    """It is never started."""
    return AsyncOmniEngine(load_pipeline(name))


@pytest.fixture(scope="module")
def cascade() -> TalkAbilities:
    made = engine("cascade")
    return TalkAbilities(made, made)


def refusal(check: Callable[..., Any], *arguments: Any) -> InvalidRequestError:
    with pytest.raises(InvalidRequestError) as caught:
        check(*arguments)
    return caught.value


@pytest.mark.parametrize("name", ["qwen2_5-omni", "qwen3-omni"])
def test_an_omni_model_speaks_at_its_own_speed_alone(name: str) -> None:
    omni = TalkAbilities(engine(name))
    omni.check_speed(1, "speed")
    omni.check_speed(1.0, "speed")
    error = refusal(omni.check_speed, 1.25, "session.audio.output.speed")
    assert error.param == "session.audio.output.speed"
    assert error.message.startswith("'session.audio.output.speed' must be 1")


def test_a_cascade_speaks_at_every_speed_of_the_protocol(cascade: TalkAbilities) -> None:
    for speed in (0.25, 1, 1.5):
        cascade.check_speed(speed, "speed")


@pytest.mark.parametrize("language", ["en", "en-GB", "English"])
def test_a_language_that_the_recogniser_knows_passes(cascade: TalkAbilities, language: str) -> None:
    cascade.check_transcription({"language": language, "keywords": ["tea"]}, "t")


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"language": "de"}, "language"),
        ({"language": "de", "languages": ["en"]}, "language"),
        ({"languages": ["de", "fr"]}, "languages"),
    ],
)
def test_a_language_that_it_does_not_know_is_named_with_those_that_it_knows(
    cascade: TalkAbilities, options: dict[str, Any], key: str
) -> None:
    error = refusal(cascade.check_transcription, options, "session.audio.input.transcription")
    assert error.param == f"session.audio.input.transcription.{key}"
    assert f".{key}' must be one of en, got" in error.message


def test_of_several_languages_one_that_is_known_is_enough(cascade: TalkAbilities) -> None:
    cascade.check_transcription({"languages": ["de", "en"]}, "t")


def test_an_omni_models_languages_are_those_of_the_servers_recogniser() -> None:
    omni = engine("qwen3-omni")
    TalkAbilities(omni).check_transcription({"language": "de"}, "t")
    hearing = TalkAbilities(omni, engine("transcribe"))
    assert refusal(hearing.check_transcription, {"language": "de"}, "t").param == "t.language"
