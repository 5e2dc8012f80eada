"""What a talker hands to its code2wav: frames of codes, as they are said."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.errors import StageFailedError
from engine.messages import Payload

Codes = NDArray[np.int32]


def pack_codes(codes: Codes) -> dict[str, Any]:
    """What a payload holds under ``unit``: ``codes`` int32 [frames, codes of a frame]."""
    return {"codes": codes}


def read_codes(payload: Payload, width: int, num_codes: int) -> Codes:
    """The frames of a payload; none if it has none.

    Raises ``StageFailedError`` for what is no frames, or has a code that is not below
    ``num_codes``: it would read other memory, or stop a GPU's context.
    """
    unit = payload.get("unit")
    if unit is None:
        return np.zeros((0, width), np.int32)
    codes = unit.get("codes") if isinstance(unit, dict) else None
    is_array = isinstance(codes, np.ndarray) and codes.dtype == np.int32
    if codes is None or not is_array or codes.ndim != 2 or codes.shape[1] != width:
        raise StageFailedError(f"the talker's codes must be int32 [frames, {width}]")
    if (codes < 0).any() or (codes >= num_codes).any():
        raise StageFailedError(f"the talker's codes must be from 0 to {num_codes - 1}")
    checked: Codes = codes
    return checked
