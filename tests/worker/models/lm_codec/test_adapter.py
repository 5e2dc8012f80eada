"""The caller's side: what a client may ask of a codec-token language model."""

from __future__ import annotations

import math
from typing import Any

import pytest

from engine.errors import InvalidRequestError
from engine.messages import SamplingParams
from worker.models.lm_codec.adapter import (
    MAX_INSTRUCTIONS_CHARS,
    NULL_ROLE,
    expand_prompt,
    list_voices,
    plain_text,
    transform_prompt,
)

NAME = "orpheus-3b"


def transform(**prompt: Any) -> dict[str, Any]:
    return transform_prompt({"text": "Hello."} | prompt, NAME)


def test_a_prompt_names_its_voice_and_fills_its_fields() -> None:
    made = transform(voice="leo", speed=1.0, language="en", instructions="None")
    assert made == {
        "text": "Hello.",
        "voice": "leo",
        "fields": {"speaker": "leo"},
        "in_segments": False,
        "warnings": [],
    }
    assert transform()["voice"] == list_voices(NAME)[0].id == "tara"


@pytest.mark.parametrize(
    ("prompt", "param", "message"),
    [
        ({"text": "?!"}, "input", "nothing that can be spoken"),
        ({"text": 7}, "input", "must be a string"),
        ({"voice": "nobody"}, "voice", "the voices are: tara, leah"),
        ({"speed": 1.5}, "speed", "speed must be 1"),
        ({"speed": True}, "speed", "speed must be 1"),
        ({"language": "fr"}, "language", "voice tara speaks en-US"),
        ({"mood": "x"}, "mood", "unknown prompt key 'mood'"),
        ({"instructions": "x" * 100_000}, "instructions", f"at most {MAX_INSTRUCTIONS_CHARS}"),
    ],
)
def test_what_the_model_cannot_do_is_refused_by_name(
    prompt: dict[str, Any], param: str, message: str
) -> None:
    with pytest.raises(InvalidRequestError, match=message) as caught:
        transform(**prompt)
    assert caught.value.param == param


def test_instructions_describe_the_voice_where_a_model_takes_them() -> None:
    told = {"text": "Hello.", "instructions": 'A "deep" voice,\n slow'}
    assert transform_prompt(told, "maya1")["fields"] == {"voice": "A 'deep' voice, slow"}
    assert transform_prompt(told, NAME)["warnings"] == ["instructions are not used by this model"]


def test_instructions_of_invisible_characters_leave_the_voice_its_own_description() -> None:
    own = transform_prompt({"text": "Hello."}, "maya1")["fields"]
    assert (
        transform_prompt({"text": "Hello.", "instructions": " \u200b\ufeff"}, "maya1")["fields"]
        == own
    )


def test_typographic_marks_become_plain_ones_and_places_stay() -> None:
    text = "“Hi” – it’s\u00a0me\u0000\u200b!\nन\u200d"
    plain = plain_text(text)
    assert plain == '"Hi" - it\'s me  !\nन\u200d'
    assert len(plain) == len(text)


def test_guidance_needs_a_null_prompt_and_a_scale_that_is_not_1() -> None:
    prompt = transform()
    assert expand_prompt(prompt, SamplingParams(), NAME) == []
    assert expand_prompt(prompt, SamplingParams(guidance_scale=1.0), NAME) == []
    [companion] = expand_prompt(prompt, SamplingParams(guidance_scale=2.0), NAME)
    assert (companion.role, companion.prompt) == (NULL_ROLE, prompt)


def test_a_guided_request_in_segments_has_no_companion_but_its_scale_is_checked() -> None:
    prompt = transform(resumable=True)
    assert expand_prompt(prompt, SamplingParams(guidance_scale=2.0), NAME) == []
    with pytest.raises(InvalidRequestError, match="a number from 0 to 10"):
        expand_prompt(prompt, SamplingParams(guidance_scale=11.0), NAME)


@pytest.mark.parametrize("scale", [-1.0, 11.0, math.nan, math.inf])
def test_a_guidance_scale_out_of_bounds_is_refused(scale: float) -> None:
    with pytest.raises(InvalidRequestError, match="a number from 0 to 10") as caught:
        expand_prompt(transform(), SamplingParams(guidance_scale=scale), NAME)
    assert caught.value.param == "guidance_scale"
