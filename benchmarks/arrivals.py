"""Open-loop load: requests arrive when they arrive, however busy the server is."""

from __future__ import annotations

import random
from collections.abc import Iterator


def poisson_times(rate_per_s: float, duration_s: float, seed: int) -> Iterator[float]:
    """Arrival times from 0 to ``duration_s``, in seconds, of a Poisson process.

    Raises ``ValueError`` for a rate that is not above 0.
    """
    if not rate_per_s > 0:
        raise ValueError(f"rate_per_s must be above 0, got {rate_per_s}")
    rng = random.Random(seed)
    now = rng.expovariate(rate_per_s)
    while now < duration_s:
        yield now
        now += rng.expovariate(rate_per_s)


class Bisection:
    """Looks for the highest level that passes, to within ``step``.

    ``level`` is the next one to try, None when the search is over; ``best`` the highest that passed
    (0.0 if none did). Below ``lowest`` and above ``highest`` it does not look.
    """

    def __init__(self, lowest: float, highest: float, step: float) -> None:
        self._failed_at = highest + step
        self._lowest = lowest
        self._step = step
        self.best = 0.0
        self.level: float | None = (lowest + highest) / 2

    def report(self, passed: bool) -> None:
        """The outcome at ``level``."""
        assert self.level is not None, "the search is over"
        if passed:
            self.best = self.level
        else:
            self._failed_at = self.level
        low = max(self.best, self._lowest - self._step)
        width = self._failed_at - low
        self.level = None if width <= self._step else low + width / 2
