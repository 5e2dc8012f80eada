"""What realtime clients lose when a type of event does not come, as the docs say."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.short_turns import CALLED, CLIENTS, ENDED, HEARD, SOUND, TOLD
from tests.clients.sieve import sieving
from tests.clients.talking import Talk, said, talking

pytestmark = [pytest.mark.model, pytest.mark.process, pytest.mark.asr]

DOCS = Path(__file__).parents[2] / "docs" / "realtime-clients.md"
# As many as do not wait for each other much on two cores.
NUM_AT_ONCE = 4
TURN_LIMIT_S = 300.0


@pytest.fixture(scope="module")
def talk() -> Iterator[Talk]:
    with talking() as talk:
        yield talk


def written(num_table: int, client: str) -> dict[str, set[str]]:
    """What that client loses by each type of event, from a table in the docs."""
    table = re.findall(r"(?:^\|.*\n)+", DOCS.read_text(encoding="utf-8"), re.MULTILINE)[num_table]
    rows = [re.split(r" *\| *", line)[1:-1] for line in table.splitlines()]
    column = rows[0].index(client)
    return {row[0].strip("`"): set(re.findall(r"\w+", row[column])) for row in rows[2:]}


class Turns:
    """Turns in which ``text`` is said, some at once; an app wants ``wanted`` of each."""

    def __init__(self, talk: Talk, client: str, text: str, wanted: set[str]) -> None:
        self._port = talk.server.port
        self._take = CLIENTS[client]
        self._pcm = said(text, silence_s=1.3)
        self._wanted = wanted
        self._free = asyncio.Semaphore(NUM_AT_ONCE)

    async def take(self, left_out: str | None) -> tuple[set[str], list[str]]:
        """What the app does not get of one, and the server's events of that."""
        async with self._free, sieving(self._port, left_out) as sieve:
            got = await asyncio.wait_for(self._take(sieve, self._pcm), TURN_LIMIT_S)
            return self._wanted - got, sieve.kinds

    async def check(self, expected: dict[str, set[str]], first: str) -> None:
        """The rows are the events from ``first`` on, and the rest is as expected."""
        lost, kinds = await self.take(None)
        assert (lost, set(kinds[kinds.index(first) :])) == (set(), set(expected))
        turns = await asyncio.gather(*map(self.take, expected))
        assert dict(zip(expected, [lost for lost, _ in turns], strict=True)) == expected


@pytest.mark.parametrize("client", CLIENTS)
def test_what_a_client_loses_of_a_spoken_turn(talk: Talk, client: str) -> None:
    turns = Turns(talk, client, "Good morning to you.", {HEARD, TOLD, SOUND, ENDED})
    asyncio.run(turns.check(written(0, client), "session.created"))


@pytest.mark.parametrize("client", CLIENTS)
def test_what_a_client_needs_to_call_a_function(talk: Talk, client: str) -> None:
    turns = Turns(talk, client, "How is the weather today?", {CALLED})
    asyncio.run(turns.check(written(1, client), "response.created"))
