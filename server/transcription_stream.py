"""The response that writes down speech: whole, or event by event while it is recognised."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, BinaryIO

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from engine.errors import VoxloomError
from server import sse
from server.audio.decoder import SAMPLE_RATE
from server.body_sender import BodySender
from server.context import RequestContext, context_of
from server.decoding import DecoderPool
from server.disconnect import run_while_connected
from server.engine_life import ServedEngine
from server.engine_port import Ticket
from server.errors import envelope, internal_error
from server.metrics import ListenerMeter, ServerMetrics
from server.middleware import StreamBrokenError
from server.settings import ServerSettings
from server.transcriber import Passage, Transcription
from server.transcript_text import (
    CONTENT_TYPES,
    Transcript,
    delta_event,
    done_event,
    render,
    segment_event,
)
from server.transcription_plan import TranscriptionPlan

log = logging.getLogger("voxloom.server")


@dataclass(frozen=True, slots=True)
class TranscriptionService:
    """What every transcription needs."""

    served: ServedEngine
    decoders: DecoderPool
    metrics: ServerMetrics
    settings: ServerSettings


class TranscriptionResponse(Response):
    """Reads its file when it is sent; closes it, and aborts the recognition, however it ends.

    ``ticket`` is the engine's, and goes back then.
    """

    def __init__(
        self,
        service: TranscriptionService,
        plan: TranscriptionPlan,
        file: BinaryIO,
        ticket: Ticket,
    ) -> None:
        super().__init__()
        self._service = service
        self._plan = plan
        self._file = file
        self._ticket = ticket

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if not await run_while_connected(self._transcribe(scope, send), receive):
                context_of(scope).outcome = "disconnected"
        finally:
            # The engine has done so, unless it was never asked.
            self._ticket.release()

    async def _transcribe(self, scope: Scope, send: Send) -> None:
        service, context = self._service, context_of(scope)
        meter = ListenerMeter(service.metrics, context.started_at, SAMPLE_RATE)
        sender = BodySender(send, meter, service.settings.send_timeout_s)
        reader = service.decoders.open(self._file)
        try:
            engine = service.served.engine
            job = Transcription(engine, context.engine_request_id(), reader)
            passages = job.passages(self._plan.prompt, self._ticket, self._deadline())
            async with aclosing(passages):
                await self._deliver(passages, job, sender)
            service.metrics.transcribed_seconds.inc(job.duration_s)
        except Exception as error:
            await self._fail(error, context, sender)
        finally:
            reader.discard()

    def _deadline(self) -> float | None:
        timeout_s = self._service.settings.request_timeout_s
        return None if timeout_s is None else time.monotonic() + timeout_s

    async def _deliver(
        self, passages: AsyncGenerator[Passage, None], job: Transcription, sender: BodySender
    ) -> None:
        if self._plan.stream:
            await self._send_events(passages, job, sender)
            return
        transcript = Transcript()
        async for passage in passages:
            transcript.add(passage)
        body = await asyncio.to_thread(self._body, transcript, job.duration_s)
        await sender.start(
            {"content-type": CONTENT_TYPES[self._plan.fmt], "content-length": str(len(body))}
        )
        await sender.write(body)
        await sender.finish()

    def _body(self, transcript: Transcript, duration_s: float) -> bytes:
        """Hours of speech have a megabyte of JSON: not on the event loop."""
        shown = render(self._plan, transcript, duration_s)
        if isinstance(shown, str):
            return shown.encode()
        return json.dumps(shown, separators=(",", ":")).encode("ascii")

    async def _send_events(
        self, passages: AsyncGenerator[Passage, None], job: Transcription, sender: BodySender
    ) -> None:
        transcript = Transcript()
        async with aclosing(sse.mark_idle(passages, sse.IDLE_S)) as marked:
            async for passage in marked:
                if passage is None:
                    # Until the first text an error has a status of its own.
                    if sender.is_started:
                        await sender.write(sse.PING)
                    continue
                if not sender.is_started:
                    await sender.start(_EVENT_HEADERS)
                for event in self._events(transcript, passage):
                    await sender.write(sse.event(event))
        if not sender.is_started:
            await sender.start(_EVENT_HEADERS)
        await sender.write(sse.event(done_event(self._plan, transcript, job.duration_s)))
        await sender.finish()

    def _events(self, transcript: Transcript, passage: Passage) -> list[dict[str, Any]]:
        events = []
        first = len(transcript.segments)
        for number, (segment, delta) in enumerate(transcript.add(passage), first):
            events.append(delta_event(self._plan, segment, delta))
            if self._plan.has_segments:
                events.append(segment_event(segment, number))
        return events

    async def _fail(self, error: Exception, context: RequestContext, sender: BodySender) -> None:
        """Before the first byte the error is an answer, after it an event, and the stream's end."""
        if not sender.is_started:
            raise error
        log.error("%s failed while its text was sent", context.request_id, exc_info=error)
        context.outcome = "broken"
        if sender.is_stalled or not self._plan.stream:
            raise StreamBrokenError from error
        shown = error if isinstance(error, VoxloomError) else internal_error(context.request_id)
        await sender.write(sse.event(envelope(shown)))
        await sender.finish()


_EVENT_HEADERS = {
    "content-type": sse.CONTENT_TYPE,
    "cache-control": "no-cache",
    # nginx collects a response before it passes it on, unless it is told not to.
    "x-accel-buffering": "no",
}
