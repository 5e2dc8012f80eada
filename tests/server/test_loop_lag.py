"""The probe of the event loop."""

from __future__ import annotations

import asyncio
import time

from server.loop_lag import watch_lag

BLOCKED_S = 0.2


def seen_lags(block_s: float) -> list[float]:
    """What the probe says when the loop is blocked once for that long while the probe sleeps."""
    lags: list[float] = []

    async def watch() -> None:
        told = asyncio.Event()

        def observe(lag_s: float) -> None:
            lags.append(lag_s)
            told.set()

        probe = asyncio.create_task(watch_lag(observe, interval_s=0.01))
        await told.wait()
        told.clear()
        until = time.monotonic() + block_s
        while time.monotonic() < until:
            pass
        await told.wait()
        probe.cancel()

    asyncio.run(watch())
    return lags


def test_a_loop_that_was_held_up_shows_for_how_long() -> None:
    first, second = seen_lags(BLOCKED_S)
    assert first >= 0
    assert second >= BLOCKED_S - 0.02
