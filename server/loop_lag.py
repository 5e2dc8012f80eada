"""How late the event loop is: the time that everything else waits for its turn."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

# A histogram's 99th percentile is settled after a few seconds, and nobody sees the cost (about
# 0.02 ms each).
_INTERVAL_S = 0.05


async def watch_lag(observe: Callable[[float], None], interval_s: float = _INTERVAL_S) -> None:
    """For ever: sleep, and tell ``observe`` by how many seconds the loop came back too late."""
    while True:
        due = time.monotonic() + interval_s
        await asyncio.sleep(interval_s)
        # uvloop's timers count whole milliseconds and may be a little early.
        observe(max(0.0, time.monotonic() - due))
