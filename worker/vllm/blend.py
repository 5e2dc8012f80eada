"""The formula of classifier-free guidance."""

from __future__ import annotations

import torch


def blend_logits(guided: torch.Tensor, free: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """``free + scale * (guided - free)``: float32 [n, vocabulary], ``scale`` [n, 1].

    A token that is masked, -inf, in either row stays so; the formula alone would make it NaN.
    """
    blend = free + scale * (guided - free)
    masked = torch.isneginf(guided) | torch.isneginf(free)
    return blend.masked_fill_(masked, -torch.inf)
