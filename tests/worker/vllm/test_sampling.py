"""Sampling parameters: defaults, what a client may change, and clear refusals."""

from __future__ import annotations

import math
from typing import Any

import pytest

from engine.errors import InvalidRequestError
from engine.messages import SamplingParams
from worker.vllm.sampling import TokenSampling, read_guidance, read_sampling, refuse_penalties

DEFAULTS = TokenSampling(max_tokens=100, temperature=0.7, top_p=0.9)


def test_what_is_not_asked_for_stays_as_the_family_has_it() -> None:
    assert read_sampling(SamplingParams(), DEFAULTS) == DEFAULTS


def test_every_parameter_is_taken_over() -> None:
    params = SamplingParams(
        seed=-5,
        temperature=0,
        top_p=0.5,
        top_k=7,
        max_tokens=12,
        extra={
            "min_tokens": 3,
            "min_p": 0.1,
            "stop": "end",
            "stop_token_ids": [4, 5],
            "ignore_eos": True,
            "logit_bias": {"7": -3, 8: 1.5},
            "allowed_token_ids": [4, 5, 6],
            "presence_penalty": 0.5,
            "frequency_penalty": -0.5,
            "repetition_penalty": 1.1,
        },
    )
    assert read_sampling(params, DEFAULTS) == TokenSampling(
        max_tokens=12,
        min_tokens=3,
        temperature=0.0,
        top_p=0.5,
        top_k=7,
        min_p=0.1,
        seed=-5,
        stop=("end",),
        stop_token_ids=(4, 5),
        ignore_eos=True,
        logit_bias={7: -3.0, 8: 1.5},
        allowed_token_ids=(4, 5, 6),
        presence_penalty=0.5,
        frequency_penalty=-0.5,
        repetition_penalty=1.1,
    )


def test_max_tokens_can_only_be_lowered() -> None:
    assert read_sampling(SamplingParams(max_tokens=5000), DEFAULTS).max_tokens == 100


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", math.nan),
        ("temperature", -0.1),
        ("temperature", 2.5),
        ("top_p", 0),
        ("top_p", math.inf),
        ("top_k", -1),
        ("max_tokens", 0),
        ("seed", 2**63),
        ("min_p", 1.5),
        ("min_p", True),
        ("stop", ["a", ""]),
        ("stop", ["a"] * 17),
        ("stop_token_ids", [-1]),
        ("stop_token_ids", "12"),
        ("ignore_eos", 1),
        ("logit_bias", {"a": 1}),
        ("logit_bias", {1: math.nan}),
        ("logit_bias", [1]),
        ("presence_penalty", 3),
        ("repetition_penalty", 0),
        ("logprobs", 5),
        ("n", 2),
    ],
)
def test_what_is_not_allowed_is_refused_by_name(name: str, value: Any) -> None:
    named = name in SamplingParams.__struct_fields__
    params = SamplingParams(**{name: value}) if named else SamplingParams(extra={name: value})
    with pytest.raises(InvalidRequestError, match=name) as caught:
        read_sampling(params, DEFAULTS)
    assert caught.value.param == name


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0, 101.0])
def test_a_guidance_scale_that_is_no_scale_is_refused(value: float) -> None:
    with pytest.raises(
        InvalidRequestError, match=r"guidance_scale must be from 0 to 100"
    ) as caught:
        read_guidance(SamplingParams(guidance_scale=value), 1.0)
    assert caught.value.param == "guidance_scale"


def test_guidance_has_a_default_and_starts_at_none() -> None:
    assert read_guidance(SamplingParams(), 2.5) == 2.5
    assert read_guidance(SamplingParams(guidance_scale=0), 2.5) == 0.0


@pytest.mark.parametrize("name", ["presence_penalty", "frequency_penalty", "repetition_penalty"])
def test_guidance_and_penalties_exclude_each_other(name: str) -> None:
    refuse_penalties(DEFAULTS)
    with pytest.raises(InvalidRequestError, match="together with guidance") as caught:
        refuse_penalties(read_sampling(SamplingParams(extra={name: 1.5}), DEFAULTS))
    assert caught.value.param == name
