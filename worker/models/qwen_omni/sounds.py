"""What the stage that hears hands to the thinker: its sounds as embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.errors import StageFailedError
from engine.messages import Payload

KEY = "heard"


def pack_sounds(sounds: Sequence[NDArray[np.float32]]) -> dict[str, Any]:
    """What a payload holds under ``KEY``: each sound float32 [tokens, width of the thinker]."""
    return {"sounds": list(sounds)}


def read_sounds(payload: Payload) -> list[NDArray[np.float32]]:
    """The sounds of a payload; none if it has none. Raises ``StageFailedError``."""
    sounds: list[NDArray[np.float32]] = payload.get(KEY, {}).get("sounds", [])
    for sound in sounds:
        if not isinstance(sound, np.ndarray) or sound.dtype != np.float32 or sound.ndim != 2:
            raise StageFailedError("a sound must be float32 [tokens, width]")
    return sounds
