"""Medians and percentiles of a few measured values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that at least ``percent`` % of all values do not exceed (nearest rank).

    Raises ``ValueError`` without values or for a ``percent`` outside 0 to 100.
    """
    if not values:
        raise ValueError("percentile needs at least one value")
    if not 0 <= percent <= 100:
        raise ValueError(f"percent must be from 0 to 100, got {percent}")
    rank = max(math.ceil(len(values) * percent / 100), 1)
    return sorted(values)[rank - 1]


def quiet_ones(rounds: Sequence[T], others_cores: Callable[[T], float], limit: float) -> list[T]:
    """The rounds in which other programs used less than ``limit`` cores.

    Fewer than three such rounds say less than all of them together: then all are returned.
    """
    quiet = [item for item in rounds if others_cores(item) < limit]
    return quiet if len(quiet) >= 3 else list(rounds)
