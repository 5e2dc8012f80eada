"""One request on its way through vLLM: its passages in order, its rows as their tokens come.

taking ──passage──> submitted ──its turn──> decoding ──last tokens──> the next one's turn
  │ nothing to take                            (the one behind it is submitted meanwhile)
  ├── more inputs may come: dry, until one does
  └── none will: finished
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass

from engine.errors import StageFailedError
from engine.messages import OutputRow, Payload, StageInteraction, StageRequest, StageUpdate
from worker.seeds import nth_seed
from worker.vllm.adapter import Burst, LlmAdapter, Passage, PassageSource
from worker.vllm.token_engine import Decoding, NewTokens, Submission, TokenEngine


@dataclass(slots=True)
class _Turn:
    """A passage that was submitted."""

    passage: Passage
    decoding: Decoding


class RequestStream:
    """``run`` ends with the request; cancelled, it frees what the request has in vLLM.

    ``emit`` gets its rows. ``failed_input`` is the number of the input at which ``run`` raised, if
    it was one; ``is_finished`` is set before its last rows are sent. Its other methods may be
    called at any time, on the loop's thread.
    """

    def __init__(
        self,
        request: StageRequest,
        companions: Mapping[str, StageRequest],
        adapter: LlmAdapter,
        engine: TokenEngine,
        threads: Executor,
        emit: Callable[[OutputRow], None],
        *,
        alone: bool = False,
    ) -> None:
        self.request = request
        self.companions = companions
        self.failed_input: int | None = None
        self.is_finished = False
        self._source: PassageSource = adapter.open(request, companions)
        self._engine = engine
        self._threads = threads
        self._emit = emit
        self._alone = alone
        self._inbox: deque[StageUpdate | StageInteraction] = deque()
        self._has_input = asyncio.Event()
        self._goes_on = asyncio.Event()
        self._is_paused, self._has_credit = request.paused, True
        self._check_goes_on()
        self._is_dry = False
        self._is_open = request.resumable
        self._num_inputs = max(1, request.first_unit)
        self._position = max(request.start_position, request.skip_position)
        self._units_done = request.first_unit
        self._done_position = request.start_position

    @property
    def member_ids(self) -> list[str]:
        return [self.request.request_id, *(c.request_id for c in self.companions.values())]

    @property
    def is_idle(self) -> bool:
        """Nothing of it is being decoded before something else happens."""
        return self._is_dry or not self._goes_on.is_set()

    def put(self, message: StageUpdate | StageInteraction) -> None:
        self._inbox.append(message)
        self._has_input.set()

    def set_paused(self, is_paused: bool) -> None:
        """Paused, it sends nothing and submits nothing; what vLLM has of it is decoded to its end.

        That is at most two passages, and waits here.
        """
        self._is_paused = is_paused
        self._check_goes_on()

    def set_has_credit(self, has_credit: bool) -> None:
        """Without credit it waits as if it were paused. Said for each row: mostly no news."""
        if has_credit != self._has_credit:
            self._has_credit = has_credit
            self._check_goes_on()

    def _check_goes_on(self) -> None:
        if self._has_credit and not self._is_paused:
            self._goes_on.set()
        else:
            self._goes_on.clear()

    async def run(self) -> None:
        turn = await self._next_turn()
        while turn is not None or self._is_open or self._inbox:
            if turn is None:
                turn = await self._wait_for_input()
                continue
            turn = await self._decode(turn)
        self._emit_finish()

    # --- passages --------------------------------------------------------------------------------

    async def _decode(self, turn: _Turn) -> _Turn | None:
        """Send a passage's tokens on as they come; the turn after it, submitted meanwhile."""
        following: asyncio.Task[_Turn | None] | None = None
        try:
            new = None
            while new is None or new.finish_reason is None:
                new = await turn.decoding.next()
                if following is None:
                    # Not before these first tokens: nobody waits for the second passage yet.
                    following = asyncio.create_task(self._next_turn())
                await self._goes_on.wait()
                self._emit_tokens(turn.passage, new)
            assert following is not None
            return await following
        except BaseException:
            await turn.decoding.abort()
            await _drop(following)
            raise

    async def _next_turn(self) -> _Turn | None:
        """Take and submit the next passage that is not done with."""
        while (passage := await self._take()) is not None:
            if passage.number < self.request.open_passage:
                continue
            await self._goes_on.wait()
            return await self._submit(passage)
        return None

    async def _submit(self, passage: Passage) -> _Turn:
        request = self.request
        missing = self.companions.keys() - {row.role for row in passage.rows}
        if missing:
            raise StageFailedError(f"a passage has no row for the companions {sorted(missing)}")
        prefix = request.prefix_tokens if passage.number == request.open_passage else []
        if prefix:
            first = request.skip_position - len(prefix)
            passage.sink.feed(Burst(first, prefix, is_replay=True))
        alone, self._alone = self._alone, False
        submission = Submission(
            request.request_id,
            passage,
            nth_seed(request.seed, passage.number),
            request.priority,
            prefix,
            alone,
            request.trace_headers,
            passage.lora or request.lora,
        )
        return _Turn(passage, await self._engine.submit(submission))

    async def _take(self) -> Passage | None:
        """The next passage of all inputs that have come, or None."""
        loop = asyncio.get_running_loop()
        while True:
            self._apply_inputs()
            passage = await loop.run_in_executor(self._threads, self._source.take)
            if passage is not None or not self._inbox:
                return passage

    def _apply_inputs(self) -> None:
        self._has_input.clear()
        while self._inbox:
            message = self._inbox.popleft()
            self.failed_input = message.unit
            self._num_inputs = message.unit + 1
            if isinstance(message, StageUpdate):
                self._source.update(message)
                self._is_open = not message.final
            else:
                self._source.interact(message)
            self.failed_input = None

    async def _wait_for_input(self) -> _Turn | None:
        self._checkpoint()
        self._is_dry = True
        try:
            await self._has_input.wait()
        finally:
            self._is_dry = False
        return await self._next_turn()

    # --- rows ------------------------------------------------------------------------------------

    def _emit_tokens(self, passage: Passage, new: NewTokens) -> None:
        burst = Burst(self._position, new.token_ids, new.text, new.finish_reason, new.states)
        payload = passage.sink.feed(burst)
        self._position += len(new.token_ids)
        self._emit_row(payload, new.token_ids, ends_passage=new.finish_reason is not None)

    def _checkpoint(self) -> None:
        """All inputs so far have become tokens: say that a replay may begin behind them."""
        is_news = self._num_inputs > self._units_done
        if self.request.resumable and is_news and not self._inbox and self._source.is_empty:
            self._units_done, self._done_position = self._num_inputs, self._position
            self._emit_row(None, [])

    def _emit_finish(self) -> None:
        closing = self._source.closing()
        self.is_finished = True
        self._emit_row(closing, [], finished=True)
        for companion in self.companions.values():
            row = OutputRow(companion.request_id, None, companion.skip_position, finished=True)
            self._emit(row)

    def _emit_row(
        self,
        payload: Payload | None,
        token_ids: list[int],
        *,
        ends_passage: bool = False,
        finished: bool = False,
    ) -> None:
        row = OutputRow(
            self.request.request_id,
            payload,
            start_sample=self._position - len(token_ids),
            num_samples=len(token_ids),
            units_done=self._units_done,
            done_position=self._done_position,
            finished=finished,
            tokens=token_ids,
            ends_passage=ends_passage,
        )
        self._emit(row)


async def _drop(following: asyncio.Task[_Turn | None] | None) -> None:
    """End a turn that was, or is being, submitted, and will not be read."""
    if following is None:
        return
    following.cancel()
    with contextlib.suppress(asyncio.CancelledError, Exception):
        turn = await following
        if turn is not None:
            await turn.decoding.abort()
