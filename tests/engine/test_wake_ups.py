"""Loops of other threads are woken once for all of their readers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import TypeVarTuple

from engine.wake_ups import WakeUps

Ts = TypeVarTuple("Ts")


class CountingLoop(asyncio.SelectorEventLoop):
    num_woken = 0

    def call_soon_threadsafe(
        self,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.Handle:
        self.num_woken += 1
        return super().call_soon_threadsafe(callback, *args, context=context)


def test_a_loop_is_woken_once_for_all_of_its_readers() -> None:
    loops = [CountingLoop(), CountingLoop()]
    futures = [loop.create_future() for loop in loops for _ in range(3)]
    wake_ups = WakeUps()
    for future in futures:
        wake_ups.add(future.get_loop(), future)
    assert not any(loop.num_woken for loop in loops)

    wake_ups.carry_out()
    wake_ups.carry_out()
    assert [loop.num_woken for loop in loops] == [1, 1]
    for loop in loops:
        loop.run_until_complete(asyncio.gather(*(f for f in futures if f.get_loop() is loop)))
        loop.close()


def test_a_reader_that_has_gone_does_not_keep_the_others_waiting() -> None:
    loop, closed = asyncio.new_event_loop(), asyncio.new_event_loop()
    gone, waiting, nobody = loop.create_future(), loop.create_future(), closed.create_future()
    gone.cancel()
    closed.close()
    wake_ups = WakeUps()
    for future in (nobody, gone, waiting):
        wake_ups.add(future.get_loop(), future)

    wake_ups.carry_out()
    loop.run_until_complete(waiting)
    loop.close()
