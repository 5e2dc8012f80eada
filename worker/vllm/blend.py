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
    blend = (guided - free).mul_(scale).add_(free)
    if plausible_nats is not None:
        implausible = guided < guided.amax(-1, keepdim=True) - plausible_nats
        blend.masked_fill_(implausible, -torch.inf)
    # Only a mask makes it NaN: -inf - -inf, inf - inf, or 0 * inf.
    return blend.nan_to_num_(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)
