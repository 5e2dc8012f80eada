"""Telling other threads' event loops that something has come."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial


class WakeUps:
    """Readers that have something to read. Each loop is woken once, for all of its readers.

    To wake a loop takes a system call, during which its thread takes the interpreter's lock: one
    for each row of a step would have both threads take turns at it, row by row.
    """

    def __init__(self) -> None:
        self._waiting: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}

    def add(self, loop: asyncio.AbstractEventLoop, future: asyncio.Future[None]) -> None:
        """``future``, of ``loop``, is to be done."""
        self._waiting.setdefault(loop, []).append(future)

    def carry_out(self) -> None:
        """Wake those that were added since the last time."""
        if self._waiting:
            waiting, self._waiting = self._waiting, {}
            for loop, futures in waiting.items():
                call_on(loop, partial(_finish, futures))


def call_on(loop: asyncio.AbstractEventLoop, function: Callable[[], None]) -> None:
    with contextlib.suppress(RuntimeError):  # the loop has been closed; nobody waits any more
        loop.call_soon_threadsafe(function)


def _finish(futures: list[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)
