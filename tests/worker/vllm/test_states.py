"""States reach their rows once, in order, however steps and preemptions cut them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import numpy as np
import pytest
import zmq

from engine.errors import StageFailedError
from engine.wire import encode_value
from worker.vllm.states import Floats, StateInbox, States, StepStates

WIDTH = 3
TIMEOUT_S = 60.0


def values_at(row: str, first: int, count: int) -> Floats:
    """float32 [count, WIDTH] that tell row and position."""
    places = np.arange(first, first + count, dtype=np.float32)[:, None]
    return places * 10 + ord(row) * 1000 + np.arange(WIDTH, dtype=np.float32)


class Sender:
    """Tells steps as the model's process does."""

    def __init__(self, address: str) -> None:
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.PUSH)
        self._socket.connect(address)

    def step(self, *rows: tuple[str, int, int]) -> None:
        """Rows as (name, first position, count)."""
        told = np.concatenate([values_at(*row) for row in rows])
        step = StepStates(
            [f"{name}-0123abcd" for name, _, _ in rows],
            [first for _, first, _ in rows],
            [count for _, _, count in rows],
            told,
            -told,
        )
        self._socket.send_multipart(encode_value(step))

    def close(self) -> None:
        self._context.destroy(linger=0)


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


def check(states: States, row: str, first: int, count: int) -> None:
    assert states.first_position == first
    np.testing.assert_array_equal(states.embeddings, values_at(row, first, count))
    np.testing.assert_array_equal(states.hidden, -values_at(row, first, count))


def test_each_row_gets_its_own_positions_in_order_and_once(runner: asyncio.Runner) -> None:
    async def scenario() -> None:
        inbox = StateInbox()
        sender = Sender(inbox.address)
        inbox.open("a")
        inbox.open("b")
        sender.step(("a", 0, 5), ("x", 0, 2), ("b", 0, 3))
        sender.step(("b", 3, 1), ("a", 5, 1))
        # "a" was preempted, and reads all that it had anew, in two parts.
        sender.step(("a", 0, 4), ("b", 4, 1))
        sender.step(("a", 4, 3))
        check(await inbox.take("a", 5), "a", 0, 5)
        check(await inbox.take("b", 3), "b", 0, 3)
        check(await inbox.take("a", 7), "a", 5, 2)
        check(await inbox.take("b", 5), "b", 3, 2)
        inbox.close("a")
        inbox.close("b")
        assert inbox.num_open == 0
        sender.close()
        inbox.shutdown()

    runner.run(asyncio.wait_for(scenario(), TIMEOUT_S))


def num_bytes_kept(array: Floats) -> int:
    """Of the array that it is a part of."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array.nbytes


def test_a_row_that_waits_keeps_nothing_of_those_beside_it(runner: asyncio.Runner) -> None:
    async def scenario() -> None:
        inbox = StateInbox()
        sender = Sender(inbox.address)
        inbox.open("a")
        sender.step(("a", 0, 2), ("b", 0, 5000))
        states = await inbox.take("a", 2)
        kept = [num_bytes_kept(array) for array in (states.embeddings, states.hidden)]
        assert kept == [states.hidden.nbytes] * 2
        sender.close()
        inbox.shutdown()

    runner.run(asyncio.wait_for(scenario(), TIMEOUT_S))


def test_taking_waits_for_what_has_not_come(runner: asyncio.Runner) -> None:
    async def scenario() -> None:
        inbox = StateInbox()
        sender = Sender(inbox.address)
        inbox.open("a")
        taken = asyncio.ensure_future(inbox.take("a", 3))
        sender.step(("a", 0, 2))
        inbox.open("b")
        sender.step(("b", 0, 1))
        await inbox.take("b", 1)
        assert not taken.done()
        sender.step(("a", 2, 2))
        check(await taken, "a", 0, 3)
        check(await inbox.take("a", 4), "a", 3, 1)
        sender.close()
        inbox.shutdown()

    runner.run(asyncio.wait_for(scenario(), TIMEOUT_S))


def test_a_gap_fails_the_row_and_no_other(runner: asyncio.Runner) -> None:
    async def scenario() -> None:
        inbox = StateInbox()
        sender = Sender(inbox.address)
        inbox.open("a")
        inbox.open("b")
        sender.step(("a", 1, 2), ("b", 0, 2))
        with pytest.raises(StageFailedError, match="position 1 before 0"):
            await inbox.take("a", 3)
        check(await inbox.take("b", 2), "b", 0, 2)
        sender.close()
        inbox.shutdown()

    runner.run(asyncio.wait_for(scenario(), TIMEOUT_S))
