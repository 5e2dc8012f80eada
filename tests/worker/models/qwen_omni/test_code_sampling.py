"""Codes are drawn as transformers draws them, and by the seed alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from transformers import (
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from engine.messages import SamplingParams
from worker.models.qwen_omni.code_sampling import (
    CodeSampling,
    checkpoint_sampling,
    draw,
    penalise,
    pick,
    read_code_sampling,
)

pytestmark = pytest.mark.torch

NUM_CODES = 40


def sampling(**changes: Any) -> CodeSampling:
    return CodeSampling(**({"max_frames": 10} | changes))


def random_logits(num_rows: int = 1) -> torch.Tensor:
    return 3 * torch.randn(num_rows, NUM_CODES, generator=torch.Generator().manual_seed(num_rows))


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"),
    [(1.0, 0, 1.0), (0.7, 5, 1.0), (1.3, 0, 0.6), (0.9, 12, 0.8), (1.0, 3, 0.01)],
)
def test_shares_are_those_of_transformers(temperature: float, top_k: int, top_p: float) -> None:
    """Draws spread evenly from 0 to 1 take each code as often as it is likely."""
    logits = random_logits()
    warped = TemperatureLogitsWarper(temperature)(None, logits)
    if top_k:
        warped = TopKLogitsWarper(top_k)(None, warped)
    expected = TopPLogitsWarper(top_p)(None, warped).softmax(dim=-1)[0].numpy()
    num_draws = 5000
    chosen = sampling(temperature=temperature, top_k=top_k, top_p=top_p)
    draws = [(n + 0.5) / num_draws for n in range(num_draws)]
    codes = pick(logits.expand(num_draws, -1), [chosen] * num_draws, draws)
    shares = np.bincount(codes.numpy(), minlength=NUM_CODES) / num_draws
    assert np.abs(shares - expected).max() < 2 / num_draws
    assert set(np.flatnonzero(shares)) <= set(np.flatnonzero(expected))


def test_the_penalty_is_that_of_transformers() -> None:
    logits = random_logits(2)
    said = torch.zeros(2, NUM_CODES, dtype=torch.bool)
    said[0, [3, 7, 20]] = True
    expected = RepetitionPenaltyLogitsProcessor(1.3)(torch.tensor([[3, 7, 20]]), logits[:1])
    penalised = penalise(logits, said, [1.3, 1.0])
    assert torch.allclose(penalised[:1], expected)
    assert torch.equal(penalised[1], logits[1])


def test_rows_of_one_batch_have_their_own_parameters() -> None:
    logits = random_logits(3)
    chosen = [sampling(temperature=0.0), sampling(top_k=1), sampling(top_k=0, temperature=2.0)]
    draws = [0.99, 0.99, 0.4]
    together = pick(logits, chosen, draws)
    alone = [pick(logits[i : i + 1], [chosen[i]], [draws[i]])[0] for i in range(3)]
    assert together.tolist() == [int(code) for code in alone]
    assert together[:2].tolist() == logits[:2].argmax(dim=-1).tolist()


@pytest.mark.parametrize("edge", [0.0, 1 - 2**-24])
def test_the_ends_of_a_draw_are_codes_that_may_be_said(edge: float) -> None:
    logits = random_logits()
    logits[:, 5:] = -torch.inf
    assert int(pick(logits, [sampling(top_k=0)], [edge])) < 5


def test_draws_are_spread_and_follow_from_seed_and_number() -> None:
    draws = [draw(3, number) for number in range(2000)]
    assert draws == [draw(3, number) for number in range(2000)]
    assert abs(np.mean(draws) - 0.5) < 0.02
    assert 0 <= min(draws) < 0.01
    assert 0.99 < max(draws) < 1
    assert draw(4, 0) != draw(3, 0)


def test_a_checkpoint_says_how_its_talker_samples() -> None:
    said = {"talker_top_k": 7, "talker_max_new_tokens": 99, "temperature": 0.1}
    found = checkpoint_sampling(said, sampling(temperature=0.9))
    assert found == sampling(max_frames=99, temperature=0.9, top_k=7)
    assert checkpoint_sampling({"talker_do_sample": False}, sampling()).temperature == 0


def test_a_request_changes_what_it_names() -> None:
    asked = SamplingParams(temperature=0.5, max_tokens=4, extra={"repetition_penalty": 1.2})
    expected = sampling(max_frames=4, temperature=0.5, repetition_penalty=1.2)
    assert read_code_sampling(asked, sampling()) == expected
    longer = SamplingParams(max_tokens=400)
    assert read_code_sampling(longer, sampling()).max_frames == 10
