"""What the language model's stage hands to the codec: windows of one passage, as they complete."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.messages import Payload
from worker.models.lm_codec.windows import Window


def make_unit(windows: Sequence[Window], *, seed: int, span: tuple[int, int]) -> Payload:
    """One unit: ``windows`` in order, the passage's noise seed, and its place in the text.

    Each window: ``codes`` int32 [frames, columns], ``first_frame``, ``num_left``, ``num_core``,
    ``is_last``.
    """
    return {"unit": {"windows": [_packed(w) for w in windows], "seed": seed, "span": list(span)}}


def unpack_windows(unit: dict[str, Any]) -> list[Window]:
    return [Window(**window) for window in unit["windows"]]


def _packed(window: Window) -> dict[str, Any]:
    return {name: getattr(window, name) for name in Window.__dataclass_fields__}
