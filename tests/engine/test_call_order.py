"""Calls of one request id, off the event loop and in order."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from engine.call_order import CallOrder

TIMEOUT_S = 60.0


@contextmanager
def call_order() -> Iterator[CallOrder]:
    with ThreadPoolExecutor(4) as executor:
        order = CallOrder(executor)
        yield order
        assert not order._last


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        await asyncio.wait_for(scenario(), 2 * TIMEOUT_S)

    asyncio.run(limited())


def test_calls_of_one_id_run_one_after_the_other_and_those_of_others_beside_them() -> None:
    async def scenario() -> None:
        with call_order() as calls:
            gate, done = threading.Event(), list[str]()

            def first() -> None:
                assert gate.wait(TIMEOUT_S)
                done.append("first")

            tasks = [
                asyncio.create_task(calls.run("a", first)),
                asyncio.create_task(calls.run("a", lambda: done.append("second"))),
            ]
            await calls.run("b", lambda: done.append("other"))
            gate.set()
            await asyncio.gather(*tasks)
            assert done == ["other", "first", "second"]

    run(scenario)


def test_a_call_cancelled_in_the_line_does_not_let_the_next_overtake() -> None:
    async def scenario() -> None:
        with call_order() as calls:
            gate, done = threading.Event(), list[str]()

            def first() -> None:
                assert gate.wait(TIMEOUT_S)
                done.append("first")

            running = asyncio.create_task(calls.run("a", first))
            cancelled = asyncio.create_task(calls.run("a", lambda: done.append("never")))
            last = asyncio.create_task(calls.run("a", lambda: done.append("last")))
            await calls.run("b", lambda: None)  # by now all of them have begun or stand in line
            cancelled.cancel()
            with pytest.raises(asyncio.CancelledError):
                await cancelled
            await calls.run("b", lambda: None)
            assert done == []
            gate.set()
            await asyncio.gather(running, last)
            assert done == ["first", "last"]

    run(scenario)


def test_a_failed_call_raises_and_the_next_goes_on() -> None:
    async def scenario() -> None:
        with call_order() as calls:
            with pytest.raises(ZeroDivisionError):
                await calls.run("a", lambda: 1 // 0)
            assert await calls.run("a", lambda: 7) == 7

    run(scenario)
