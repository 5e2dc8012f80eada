"""Work ends with its client."""

from __future__ import annotations

import asyncio

import pytest
from starlette.types import Message

from server.disconnect import run_while_connected


class Client:
    def __init__(self) -> None:
        self.gone = asyncio.Event()

    async def receive(self) -> Message:
        await self.gone.wait()
        return {"type": "http.disconnect"}


async def nothing() -> None:
    pass


def test_work_that_ends_first_is_reported() -> None:
    async def run() -> bool:
        return await run_while_connected(nothing(), Client().receive)

    assert asyncio.run(run())


def test_what_the_work_raises_is_raised() -> None:
    async def fail() -> None:
        raise KeyError("x")

    async def run() -> None:
        await run_while_connected(fail(), Client().receive)

    with pytest.raises(KeyError):
        asyncio.run(run())


def test_work_is_cancelled_and_has_cleaned_up_when_the_client_leaves() -> None:
    steps: list[str] = []

    async def work(client: Client) -> None:
        try:
            steps.append("begun")
            client.gone.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            steps.append("cleaned up")

    async def run() -> bool:
        client = Client()
        return await run_while_connected(work(client), client.receive)

    assert not asyncio.run(run())
    assert steps == ["begun", "cleaned up"]


def test_cancelling_the_caller_cancels_the_work_and_the_watch() -> None:
    ended: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("work")

    async def run() -> int:
        task = asyncio.create_task(run_while_connected(work(), Client().receive))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return len(asyncio.all_tasks())

    assert asyncio.run(run()) == 1
    assert ended == ["work"]
