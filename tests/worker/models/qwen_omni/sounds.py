"""A sound for the small models: features, and the tokens that stand for it in a prompt."""

from __future__ import annotations

import torch

_NUM_MELS, _NUM_FRAMES = 16, 40


def features() -> dict[str, torch.Tensor]:
    """What the thinkers of transformers take."""
    generator = torch.Generator().manual_seed(3)
    return {
        "input_features": torch.randn(1, _NUM_MELS, _NUM_FRAMES, generator=generator),
        "feature_attention_mask": torch.ones(1, _NUM_FRAMES, dtype=torch.long),
    }


def with_sound(words: torch.Tensor, audio_token: int, num_tokens: int) -> torch.Tensor:
    """Words int64 [1, tokens], the sound of ``num_tokens`` behind the second of them."""
    sound = torch.full((1, num_tokens), audio_token)
    return torch.cat([words[:, :2], sound, words[:, 2:]], dim=1)
