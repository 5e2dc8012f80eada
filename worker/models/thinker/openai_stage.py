"""The thinker as a stage: messages in, an answer out as it is written, by a model elsewhere.

The model is asked on an event loop of its own; a step only takes what has come of an answer. Each
unit of output is a ``thought``:

- ``delta``: more of the answer's text, all of it;
- ``pieces``: what of it is read aloud, as [text, offset in the answer, whether a sentence ends
  before it];
- ``calls``: more of its tool calls; ``finish_reason`` and ``usage`` at the end.

An answer that was under way when its replica died cannot be gone on with: another one would not
begin with the same words. Such a request fails, unless nothing of it had come yet.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.errors import StageFailedError, UnavailableError
from engine.messages import Fingerprint, Payload, StageRequest, StageUpdate
from worker.fingerprint import make_fingerprint
from worker.models.thinker.asking import ask
from worker.models.thinker.endpoint import Endpoint, EndpointOptions, Thought
from worker.models.thinker.spoken import OPENING, SpokenText
from worker.rows import RowStage, declare_sparse
from worker.stage_model import Readiness, RowStatus, StageContext, StepOutput

logger = logging.getLogger("voxloom.worker.models.thinker")

# Pieces that wait for a step; then the endpoint is read no further. A step takes all there are, so
# that many wait only for a request that is paused.
_MAX_WAITING = 256


@dataclass(slots=True)
class _Request:
    """An answer. ``thoughts`` is shared with the event loop's thread (deques are safe for that).

    ``opening`` is what belongs before the first of its text, and has not been told yet.
    """

    prompt: dict[str, Any]
    opening: str = ""
    position: int = 0
    spoken: SpokenText = field(default_factory=SpokenText)
    thoughts: deque[Thought] = field(default_factory=deque)
    task: concurrent.futures.Future[None] | None = None
    room: asyncio.Event = field(default_factory=asyncio.Event)
    has_ended: bool = False
    error: Exception | None = None

    @property
    def has_work(self) -> bool:
        return bool(self.thoughts) or self.has_ended


class ThinkerStage(RowStage[_Request]):
    """One thought per request and step: all that has come since the last."""

    def __init__(self, endpoint: Endpoint, readiness: Readiness, *, is_first: bool) -> None:
        super().__init__()
        self._endpoint = endpoint
        self._readiness = readiness
        self._is_first = is_first
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="thinker", daemon=True).start()

    def add(self, request: StageRequest) -> None:
        if request.skip_position > 0:
            raise UnavailableError("the answer was lost in the middle; ask again")
        opening = OPENING if self._endpoint.opens_reasoning else ""
        state = _Request(request.prompt, opening)
        self._rows[request.request_id] = state
        if self._is_first:
            self._begin(request.request_id, state)

    def update(self, update: StageUpdate) -> None:
        """What the stages before have made of the request; with the last of it thinking begins."""
        state = self._rows[update.request_id]
        if update.final and state.task is None:
            self._begin(update.request_id, state)

    def abort(self, request_id: str) -> None:
        state = self._rows.pop(request_id, None)
        if state is not None and state.task is not None:
            state.task.cancel()

    def step(self, batch: Sequence[str]) -> StepOutput:
        units: dict[str, Payload] = {}
        rows: dict[str, RowStatus] = {}
        for request_id in batch:
            state = self._rows[request_id]
            # Asked first: what comes behind the end would be lost.
            has_ended = state.has_ended
            unit = self._collect(state, has_ended)
            if unit is not None:
                state.position += 1
                units[request_id] = unit
            error = state.error if has_ended else None
            rows[request_id] = RowStatus(has_ended, state.position, error=error)
        outputs = declare_sparse(list(units)) | {"thought": list(units.values())}
        return StepOutput(outputs, rows)

    def fingerprint(self) -> Fingerprint:
        return make_fingerprint([])

    def _begin(self, request_id: str, state: _Request) -> None:
        work = self._think(request_id, state)
        state.task = asyncio.run_coroutine_threadsafe(work, self._loop)

    async def _think(self, request_id: str, state: _Request) -> None:
        """Runs on the event loop."""
        has_finished = False
        try:
            async for thought in ask(self._endpoint, state.prompt):
                has_finished |= thought.finish_reason is not None
                state.thoughts.append(thought)
                self._readiness.notify(request_id)
                await _wait_for_room(state)
            if not has_finished:
                state.error = StageFailedError("the language model broke off its answer")
        except Exception as error:
            state.error = error
        state.has_ended = True
        self._readiness.notify(request_id)

    def _collect(self, state: _Request, has_ended: bool) -> Payload | None:
        """All that has come, as one unit; None if nothing has."""
        delta: list[str] = []
        unit: Payload = {"calls": [], "finish_reason": None, "usage": None}
        while state.thoughts:
            thought = state.thoughts.popleft()
            if thought.text and state.opening:
                delta.append(state.opening)
                state.opening = ""
            delta.append(thought.text)
            unit["calls"] += thought.calls
            unit["finish_reason"] = thought.finish_reason or unit["finish_reason"]
            unit["usage"] = thought.usage or unit["usage"]
        if not state.room.is_set():
            self._loop.call_soon_threadsafe(state.room.set)
        unit["delta"] = "".join(delta)
        pieces = state.spoken.feed(unit["delta"])
        if has_ended:
            pieces += state.spoken.finish()
        unit["pieces"] = [[piece.text, piece.offset, piece.breaks] for piece in pieces]
        has_news = delta or pieces
        return unit if has_news else None


async def _wait_for_room(state: _Request) -> None:
    while len(state.thoughts) >= _MAX_WAITING:
        state.room.clear()
        # Looked at again: a step may have taken them all just before the flag was cleared.
        if len(state.thoughts) >= _MAX_WAITING:
            await state.room.wait()


def load(context: StageContext) -> ThinkerStage:
    endpoint = Endpoint(context.read_options(EndpointOptions))
    for client in ("httpx", "httpx2"):  # a line for each answer, with the endpoint's address
        logging.getLogger(client).setLevel(logging.WARNING)
    logger.info("thinking with %s at %s", endpoint.model, endpoint.base_url)
    return ThinkerStage(endpoint, context.readiness, is_first=context.stage_id == 0)
