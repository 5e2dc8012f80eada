"""Sounds, and messages with places for them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def clip_of(num_samples: int, seed: int) -> NDArray[np.int16]:
    """Noise that swells and fades, int16 [num_samples]."""
    rng = np.random.default_rng(seed)
    swell = np.sin(np.arange(num_samples) / 900.0) ** 2
    clip: NDArray[np.int16] = (rng.standard_normal(num_samples) * swell * 6000).astype(np.int16)
    return clip


def message(*parts: str | None) -> list[dict[str, Any]]:
    """A user's message of texts, and of sounds where None stands."""
    content = [
        {"type": "audio"} if part is None else {"type": "text", "text": part} for part in parts
    ]
    return [{"role": "user", "content": content}]
