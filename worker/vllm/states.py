"""What a language model's positions held: each one's input embedding and hidden state.

    vLLM's process: StateTeller ──a message a step, PUSH──> StateInbox ──rows in order──> Decoding

A step may run over a position again (a row that was preempted reads all it had anew); the inbox
keeps the first rows that it gets of each position.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import msgspec
import numpy as np
import zmq
import zmq.asyncio
from numpy.typing import NDArray

from engine.errors import StageFailedError
from engine.wire import decode_value

Floats: TypeAlias = NDArray[np.float32]

# Steps that wait to be read. The model's process then waits, too.
MAX_WAITING_STEPS = 64


@dataclass(frozen=True, slots=True)
class States:
    """Positions from ``first_position`` on: ``embeddings``, ``hidden`` float32 [n, width]."""

    first_position: int
    embeddings: Floats
    hidden: Floats

    def behind(self, position: int) -> States:
        """Those from ``position`` on."""
        return self.split(position)[1]

    def split(self, position: int) -> tuple[States, States]:
        """Those before ``position``, and the others."""
        size = max(0, position - self.first_position)
        before = States(self.first_position, self.embeddings[:size], self.hidden[:size])
        first = self.first_position + len(before.hidden)
        return before, States(first, self.embeddings[size:], self.hidden[size:])


class StepStates(msgspec.Struct, forbid_unknown_fields=True):
    """What a step ran over: of each row its id, first position, number of positions.

    ``embeddings`` and ``hidden`` float32 [positions of all rows, width].
    """

    row_ids: list[str]
    first_positions: list[int]
    counts: list[int]
    embeddings: Floats
    hidden: Floats


@dataclass(slots=True)
class _Row:
    parts: list[States] = field(default_factory=list)
    num_had: int = 0
    error: StageFailedError | None = None
    news: asyncio.Event = field(default_factory=asyncio.Event)


class StateInbox:
    """For one event loop. Rows that nobody has opened are dropped.

    A row's id is the one that it is submitted with; vLLM's own is that with a suffix.
    """

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="voxloom-states-")
        self.address = f"ipc://{Path(self._folder.name) / 'states'}"
        self._context = zmq.asyncio.Context()
        self._socket = self._context.socket(zmq.PULL)
        self._socket.set_hwm(MAX_WAITING_STEPS)
        self._socket.bind(self.address)
        self._rows: dict[str, _Row] = {}
        self._reader: asyncio.Task[None] | None = None

    @property
    def num_open(self) -> int:
        return len(self._rows)

    def open(self, row_id: str) -> None:
        """Keep what is told of a row, before it is submitted."""
        if self._reader is None:
            self._reader = asyncio.create_task(self._read())
        self._rows[row_id] = _Row()

    def close(self, row_id: str) -> None:
        self._rows.pop(row_id, None)

    async def take(self, row_id: str, end: int) -> States:
        """The states from the last taken one on up to position ``end``, which is not among them.

        Waits for them: a step's states and its tokens come on different ways.
        """
        row = self._rows[row_id]
        while row.num_had < end and row.error is None:
            row.news.clear()
            await row.news.wait()
        if row.error is not None:
            raise row.error
        taken, rest = _join(row.parts).split(end)
        row.parts = [rest]
        return taken

    def shutdown(self) -> None:
        if self._reader is not None:
            self._reader.cancel()
        self._context.destroy(linger=0)
        self._folder.cleanup()

    async def _read(self) -> None:
        while True:
            frames = await self._socket.recv_multipart(copy=False)
            step = decode_value([frame.buffer for frame in frames], StepStates)
            start = 0
            for row_id, first, count in zip(
                step.row_ids, step.first_positions, step.counts, strict=True
            ):
                end = start + count
                row = self._rows.get(_submitted_id(row_id))
                if row is not None:
                    _put(row, _own(step, first, start, end))
                start = end


def _submitted_id(row_id: str) -> str:
    """vLLM makes ids unique: it appends a hyphen and random characters (``assign_request_id``)."""
    return row_id.rpartition("-")[0]


def _own(step: StepStates, first_position: int, start: int, end: int) -> States:
    """A row's part of a step. A copy: a view would keep those of all rows while the row waits."""
    return States(first_position, step.embeddings[start:end].copy(), step.hidden[start:end].copy())


def _put(row: _Row, states: States) -> None:
    if states.first_position > row.num_had:
        row.error = StageFailedError(
            f"vLLM told of position {states.first_position} before {row.num_had}"
        )
    states = states.behind(row.num_had)
    row.num_had += len(states.hidden)
    row.parts.append(states)
    row.news.set()


def _join(parts: Sequence[States]) -> States:
    if len(parts) == 1:
        return parts[0]
    return States(
        parts[0].first_position,
        np.concatenate([part.embeddings for part in parts]),
        np.concatenate([part.hidden for part in parts]),
    )
