"""Interactions of running requests: carried out and acknowledged, or refused without harm."""

from __future__ import annotations

from collections.abc import Callable

from engine.messages import (
    INTERACTION_KINDS,
    AckMessage,
    InteractionMessage,
    OutputMessage,
    refusal,
)
from engine.orchestrator.counters import CoreCounters
from engine.orchestrator.effects import Deliver, Effect
from engine.orchestrator.flow import RequestFlow
from engine.orchestrator.records import JOURNAL_IS_FULL, RequestRecord, StageState


class Interactions:
    """Each interaction gets one answer, with its ``event_id``, among the request's outputs."""

    def __init__(
        self, flow: RequestFlow, counters: CoreCounters, emit: Callable[[Effect], None]
    ) -> None:
        self._flow = flow
        self._counters = counters
        self._emit = emit

    def carry_out(self, record: RequestRecord, message: InteractionMessage, now: float) -> None:
        if message.refused is not None:
            self._emit(Deliver(message.refused))
        elif message.kind not in INTERACTION_KINDS:
            known = ", ".join(INTERACTION_KINDS)
            self._refuse(message, f"unknown interaction {message.kind!r}; known: {known}")
        elif message.kind == "interrupt":
            self._interrupt(record, message)
        elif message.kind in ("pause", "resume"):
            self._flow.set_paused(record, message.kind == "pause")
            self._acknowledge(record, message)
        elif record.input_closed:
            self._refuse(message, f"{message.kind}: the request takes no more text")
        elif record.stages[0].is_full:
            self._refuse(message, f"{message.kind}: the request {JOURNAL_IS_FULL}")
        elif message.kind == "flush" and record.stages[0].ends_with_flush:
            self._acknowledge(record, message)
        else:
            item = record.stages[0].append_interaction(
                record.request_id, message.kind, message.arguments
            )
            self._flow.send_input(record, 0, item, now)
            self._acknowledge(record, message)

    def _interrupt(self, record: RequestRecord, message: InteractionMessage) -> None:
        """Drop all that was not delivered. A request that takes no more text ends here."""
        result = {"resume_sample": record.delivered_samples, **message.arguments}
        self._emit(Deliver(AckMessage(record.request_id, message.event_id, message.kind, result)))
        if record.input_closed:
            self._counters.num_finished += 1
            stage_id = record.submission.final_output_stage_ids[-1]
            position = record.stages[stage_id].position
            self._flow.end(
                record,
                OutputMessage(record.request_id, stage_id, None, position, finished=True),
            )
            return
        for stage_id, progress in enumerate(record.stages):
            progress.cut()
            if progress.state is StageState.BOUND:
                self._flow.take_back(record, stage_id)

    def _acknowledge(self, record: RequestRecord, message: InteractionMessage) -> None:
        self._emit(Deliver(AckMessage(record.request_id, message.event_id, message.kind)))

    def _refuse(self, message: InteractionMessage, reason: str) -> None:
        self._emit(Deliver(refusal(message, "invalid_value", reason)))
