"""Runs callers' work off the event loop, in the order of the calls for each request id."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar

T = TypeVar("T")


class CallOrder:
    """Calls for one id keep their order per event loop: between loops there is none."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._last: dict[tuple[int, str], asyncio.Future[None]] = {}

    async def run(self, request_id: str, work: Callable[[], T]) -> T:
        """What ``work`` returns, run on the executor after the calls made before for this id.

        A cancelled call that has begun is waited for: what it did must be known.
        """
        loop = asyncio.get_running_loop()
        key = (id(loop), request_id)
        before = self._last.get(key)
        mine: asyncio.Future[None] = loop.create_future()
        self._last[key] = mine
        try:
            if before is not None:
                await asyncio.wait([before])
            running = loop.run_in_executor(self._executor, work)
            try:
                return await asyncio.shield(running)
            except asyncio.CancelledError:
                while not running.done():
                    with contextlib.suppress(asyncio.CancelledError):
                        await asyncio.wait([running])
                raise
        finally:
            self._end(key, mine, before)

    def _end(
        self,
        key: tuple[int, str],
        mine: asyncio.Future[None],
        before: asyncio.Future[None] | None,
    ) -> None:
        """Let the next call begin; behind the one before, if this one was cancelled in the line."""
        if before is not None and not before.done():
            before.add_done_callback(lambda _: self._end(key, mine, None))
            return
        mine.set_result(None)
        if self._last.get(key) is mine:
            del self._last[key]
