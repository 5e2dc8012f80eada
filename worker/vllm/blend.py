"""The formula of classifier-free guidance."""

from __future__ import annotations

import torch


def blend_logits(
    guided: torch.Tensor,
    free: torch.Tensor,
    scale: torch.Tensor,
    plausible_nats: torch.Tensor | None = None,
) -> torch.Tensor:
    """``free + scale * (guided - free)``: float32 [n, vocabulary], ``scale`` [n, 1].

    A token that is masked, -inf, in either row stays so; the formula alone would make it NaN. So
    is one whose guided logit is more than ``plausible_nats`` [n, 1] below the row's highest.
    """
    blend = free + scale * (guided - free)
    masked = torch.isneginf(guided) | torch.isneginf(free)
    if plausible_nats is not None:
        masked |= guided < guided.amax(-1, keepdim=True) - plausible_nats
    return blend.masked_fill_(masked, -torch.inf)
