"""The caller's side: styles, guidance and companions from a request."""

from __future__ import annotations

import math

import pytest

from engine.errors import InvalidRequestError
from engine.messages import SamplingParams
from worker.models.hibari_talker.adapter import (
    GUIDANCE,
    NULL_ROLE,
    expand_prompt,
    list_voices,
    transform_prompt,
)

DEFAULT = SamplingParams()


def told(instructions: str | None) -> dict[str, object]:
    return transform_prompt({"text": "Hello.", "instructions": instructions})


@pytest.mark.parametrize(
    ("instructions", "style", "guidance"),
    [
        (None, [0, 0, 0], 1.0),
        ("Like a pirate.", [0, 0, 0], 1.0),
        ("a bit slow", [-1, 0, 0], GUIDANCE[1]),
        ("slow and high", [-2, 2, 0], GUIDANCE[2]),
        ("very slow, slightly monotone", [-2, 0, -1], GUIDANCE[3]),
    ],
)
def test_instructions_become_a_style_and_a_guidance(
    instructions: str | None, style: list[int], guidance: float
) -> None:
    prompt = told(instructions)
    assert (prompt["style"], prompt["guidance"]) == (style, guidance)


def test_a_style_leaves_speed_and_shape_to_the_request_and_the_voice() -> None:
    plain, styled = told(None), told("very slow, high, monotone")
    assert (styled["speed"], styled["shape"]) == (plain["speed"], plain["shape"])


def test_unknown_words_are_told() -> None:
    assert told("like a pirate")["warnings"] == ["instructions: ignored pirate"]


def test_only_a_guided_request_has_a_companion() -> None:
    assert expand_prompt(told(None), DEFAULT) == []
    (expansion,) = expand_prompt(told("slow"), DEFAULT)
    assert expansion.role == NULL_ROLE
    assert expand_prompt(told("slow"), SamplingParams(guidance_scale=1.0)) == []
    assert len(expand_prompt(told(None), SamplingParams(guidance_scale=2.0))) == 1


def test_text_in_segments_is_guided_without_a_companion() -> None:
    prompt = transform_prompt({"text": "", "instructions": "slow", "resumable": True})
    assert prompt["guidance"] == GUIDANCE[2]
    assert expand_prompt(prompt, DEFAULT) == []


@pytest.mark.parametrize("scale", [0.5, 0.0, -1.0, math.nan, math.inf, 101.0])
def test_a_guidance_that_cannot_act_is_refused_by_name(scale: float) -> None:
    with pytest.raises(InvalidRequestError, match="guidance_scale must be") as caught:
        expand_prompt(told("slow"), SamplingParams(guidance_scale=scale))
    assert caught.value.param == "guidance_scale"


def test_the_voices_are_hibaris() -> None:
    assert list_voices()[0].id == "heart"
