"""Prompts of hearing: what is let through, and what is refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from engine.errors import InvalidRequestError
from worker.models.whisper.adapter import transform_prompt


def test_what_is_not_said_has_its_default() -> None:
    assert transform_prompt({"mode": "recording", "request_id": "r"}) == {
        "mode": "recording",
        "guesses": False,
        "detection": None,
        "recognition": {
            "language": None,
            "languages": [],
            "task": "transcribe",
            "context": "",
            "keywords": [],
            "temperature": 0.0,
            "word_times": False,
        },
    }


def test_what_is_said_is_passed_on() -> None:
    detection = {"threshold": 0.3, "silence_duration_ms": 200, "prefix_padding_ms": None}
    prompt = transform_prompt(
        {"mode": "live", "detection": detection, "language": "en-GB", "temperature": 1}
    )

    assert prompt["detection"] == {"threshold": 0.3, "silence_duration_ms": 200}
    assert prompt["recognition"]["language"] == "en"
    assert prompt["recognition"]["temperature"] == 1.0


@pytest.mark.parametrize(
    ("key", "value", "param"),
    [
        ("mode", "both", "mode"),
        ("mode", None, "mode"),
        ("task", "summarise", "task"),
        ("language", "klingon", "language"),
        ("languages", ["en", "klingon"], "languages"),
        ("languages", "en", "languages"),
        ("temperature", 1.1, "temperature"),
        ("temperature", float("nan"), "temperature"),
        ("temperature", True, "temperature"),
        ("context", 5, "prompt"),
        ("context", "a" * 10_001, "prompt"),
        ("keywords", "word", "keywords"),
        ("keywords", ["a"] * 101, "keywords"),
        ("word_times", "yes", "word_times"),
        ("detection", "auto", "detection"),
        ("detection", {"threshold": 2}, "threshold"),
        ("detection", {"silence_duration_ms": -1}, "silence_duration_ms"),
        ("detection", {"eagerness": 1}, "eagerness"),
        ("colour", "blue", "colour"),
    ],
)
def test_what_is_wrong_is_refused_by_name(key: str, value: Any, param: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        transform_prompt({"mode": "recording"} | {key: value})

    assert caught.value.param == param


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"language": "de"}, "language"),
        ({"language": "fr-CA", "languages": ["en"]}, "language"),
        ({"languages": ["de", "fr"]}, "languages"),
        ({"languages": ["en", "klingon"]}, "languages"),
        ({"language": "klingon"}, "language"),
    ],
)
def test_a_language_that_the_recogniser_does_not_know_is_refused_with_those_it_knows(
    given: dict[str, Any], key: str
) -> None:
    with pytest.raises(InvalidRequestError, match=f"{key} must be one of en, es, got") as caught:
        transform_prompt({"mode": "live"} | given, languages=["en", "es"])
    assert caught.value.param == key


def test_of_several_languages_those_that_the_recogniser_knows_are_left() -> None:
    prompt = transform_prompt(
        {"mode": "live", "language": "en-US", "languages": ["de", "es"]}, languages=["en", "es"]
    )
    assert prompt["recognition"]["language"] == "en"
    assert prompt["recognition"]["languages"] == ["es"]


def test_who_knows_english_only_is_not_asked_to_translate() -> None:
    translation = {"mode": "recording", "task": "translate"}
    with pytest.raises(InvalidRequestError, match="cannot translate") as caught:
        transform_prompt(translation, languages=["en"])
    assert caught.value.param == "model"
    for languages in ([], ["en", "de"]):
        assert transform_prompt(translation, languages)["recognition"]["task"] == "translate"
