"""The engine's requests of one speech session: one per utterance."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from itertools import count

from engine.errors import VoxloomError
from engine.outputs import OmniInteractionPrompt, OmniRequestOutput
from server.context import RequestContext
from server.engine_port import EnginePort
from server.sessions.effects import (
    AppendText,
    ChangeVoice,
    EndText,
    FlushText,
    Order,
    StartUtterance,
)
from server.speech_plan import SessionPlan


class SpeechRequests:
    """Requests by the index of their utterance."""

    def __init__(
        self, engine: EnginePort, context: RequestContext, timeout_s: float | None
    ) -> None:
        self._engine = engine
        self._context = context
        self._timeout_s = timeout_s
        self._ids: dict[int, str] = {}
        self._started_at: dict[int, float] = {}
        self._event_ids = count(1)
        self._aborts: set[asyncio.Task[None]] = set()

    def started_at(self, utterance_index: int) -> float:
        return self._started_at[utterance_index]

    async def carry_out(self, effect: Order, plan: SessionPlan) -> None:
        """Have the engine do what the session wants. Raises ``VoxloomError``.

        An order for a request that is over does nothing: how it ended is on its way.
        """
        if not isinstance(effect, StartUtterance) and effect.utterance_index not in self._ids:
            return
        match effect:
            case StartUtterance(index):
                await self._start(index, plan)
            case AppendText(index, text):
                await self._engine.add_streaming_update_async(self._ids[index], {"text": text})
            case EndText(index):
                await self._engine.add_streaming_update_async(
                    self._ids[index], {"text": ""}, resumable=False
                )
            case FlushText(index):
                await self._interact(index, OmniInteractionPrompt(self._event_id(), "flush"))
            case ChangeVoice(index, changes):
                prompt = OmniInteractionPrompt(self._event_id(), "update", changes)
                await self._interact(index, prompt)

    async def outputs(self, utterance_index: int) -> AsyncGenerator[OmniRequestOutput, None]:
        """What the engine made of an utterance, to its end; nothing if it was aborted before.

        Raises ``VoxloomError``.
        """
        request_id = self._ids.get(utterance_index)
        if request_id is not None:
            try:
                async for output in self._engine.outputs(request_id):
                    if output.interaction is not None and output.interaction.error is not None:
                        self.abort(utterance_index)
                        output.interaction.check()
                    yield output
            except VoxloomError:
                self._ids.pop(utterance_index, None)
                raise
            self._ids.pop(utterance_index, None)

    def abort(self, utterance_index: int) -> None:
        """Have the engine let go of a request, without waiting for it."""
        request_id = self._ids.pop(utterance_index, None)
        if request_id is None:
            return
        task = asyncio.create_task(self._engine.abort([request_id]))
        self._aborts.add(task)
        task.add_done_callback(self._aborts.discard)

    def forget(self, utterance_index: int) -> None:
        """Nobody reads the outputs any more; a request that has not ended is aborted."""
        self.abort(utterance_index)
        self._started_at.pop(utterance_index, None)

    async def close(self) -> None:
        """Wait until the engine has let go of what was aborted."""
        if self._aborts:
            await asyncio.wait(self._aborts)

    async def _start(self, index: int, plan: SessionPlan) -> None:
        request_id = self._context.engine_request_id()
        now = time.monotonic()
        await self._engine.add_request_async(
            request_id,
            plan.prompt,
            sampling_params_list=plan.sampling,
            final_stage_id=self._engine.pipeline.final_stage_id,
            resumable=True,
            deadline=None if self._timeout_s is None else now + self._timeout_s,
        )
        self._ids[index], self._started_at[index] = request_id, now

    async def _interact(self, index: int, interaction: OmniInteractionPrompt) -> None:
        refusal = await self._engine.submit_interaction_async(self._ids[index], interaction)
        if refusal is not None:
            refusal.check()

    def _event_id(self) -> str:
        return str(next(self._event_ids))
