"""The formula of guidance, and masks in it."""

from __future__ import annotations

import pytest
import torch

from worker.vllm.blend import blend_logits

pytestmark = pytest.mark.torch


def test_each_pair_is_blended_by_its_own_scale_in_float32() -> None:
    generator = torch.Generator().manual_seed(1)
    c, u = (torch.randn(3, 50, generator=generator) for _ in range(2))
    scale = torch.tensor([[0.0], [1.0], [3.5]])
    blend = blend_logits(c, u, scale)
    assert blend.dtype == torch.float32
    for row in range(3):
        assert torch.equal(blend[row], u[row] + scale[row] * (c[row] - u[row]))
    assert torch.equal(blend[0], u[0])


def test_a_token_that_is_masked_in_either_row_stays_masked() -> None:
    c = torch.tensor([[1.0, -torch.inf, -torch.inf, 2.0]])
    u = torch.tensor([[0.5, -torch.inf, 1.0, -torch.inf]])
    assert blend_logits(c, u, torch.tensor([[2.0]])).tolist() == [[1.5, *[-torch.inf] * 3]]
    assert blend_logits(c, u, torch.tensor([[0.0]])).tolist() == [[0.5, *[-torch.inf] * 3]]


def test_an_implausible_token_is_masked_however_much_guidance_would_raise_it() -> None:
    c = torch.tensor([[0.0, -2.0, -5.0], [0.0, -2.0, -5.0]])
    u = torch.tensor([[0.0, -2.0, -30.0], [0.0, -2.0, -30.0]])
    scale, nats = torch.full((2, 1), 3.0), torch.tensor([[4.0], [torch.inf]])
    blend = blend_logits(c, u, scale, nats)
    assert blend[0].tolist() == [0.0, -2.0, -torch.inf]
    assert blend[1].argmax() == 2
