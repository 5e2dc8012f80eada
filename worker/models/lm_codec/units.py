"""What the language model's stage hands to the codec: windows of one passage, as they complete."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.messages import Payload
from worker.models.lm_codec.windows import Window

# splitmix64 (Steele, Lea, Flood 2014): neighbouring passages of a request get unrelated seeds.
_GOLDEN = 0x9E3779B97F4A7C15
_MASK = 2**64 - 1


def passage_seed(request_seed: int, number: int) -> int:
    """The noise seed of a passage: a function of the request's seed and its number alone."""
    z = (request_seed + (number + 1) * _GOLDEN) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return (z ^ (z >> 31)) >> 1


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
