"""Whether the orchestrator still lives, by its pings."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

logger = logging.getLogger("voxloom.worker")


class Liveness:
    """``is_orphaned`` once no ping has come for ``orphan_timeout_s``."""

    def __init__(
        self, orphan_timeout_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._orphan_timeout_s = orphan_timeout_s
        self._clock = clock
        self._last_ping_at = clock()

    def note_ping(self) -> None:
        self._last_ping_at = self._clock()

    @property
    def is_orphaned(self) -> bool:
        if self._clock() - self._last_ping_at <= self._orphan_timeout_s:
            return False
        logger.error("no ping for %g s: the orchestrator is gone", self._orphan_timeout_s)
        return True
