"""The formula of classifier-free guidance."""

from __future__ import annotations

import torch


def blend_logits(guided: torch.Tensor, free: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """``free + scale * (guided - free)``: float32 [n, vocabulary], ``scale`` [n, 1].

    A token that is masked, -inf, in either row stays so; the formula alone would make it NaN.
    """
    blend = (guided - free).mul_(scale).add_(free)
    # Only a mask makes it NaN: -inf - -inf, inf - inf, or 0 * inf.
    return blend.nan_to_num_(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)
