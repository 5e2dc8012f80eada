"""The response that answers a chat: hears, has it thought about, and tells, until one side ends.

Nothing is sent before there is something of an answer, so everything that fails until then is a
real status code. What fails later ends the stream visibly, with an error event.
"""

from __future__ import annotations

import asyncio
import io
import json
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from engine.errors import InvalidRequestError, VoxloomError
from server import sse
from server.body_sender import BodySender
from server.context import RequestContext, context_of
from server.decoding import DecoderPool
from server.disconnect import run_while_connected
from server.encoding import AsyncEncoder
from server.engine_port import Ticket
from server.errors import envelope, internal_error
from server.metrics import ListenerMeter, ServerMetrics
from server.middleware import StreamBrokenError
from server.talk.answers import (
    AnswerEnd,
    AnswerPart,
    CallDelta,
    SoundDelta,
    TextDelta,
    answer,
)
from server.talk.audio_fetch import AudioFetcher
from server.talk.audio_shelf import AudioShelf
from server.talk.chat_clips import Clip, clip_ms, read_clip
from server.talk.chat_events import AudioBlocks, Choice, Completion, Spending
from server.talk.chat_plan import ChatPlan, HeardPart
from server.talk.service import TalkService
from server.transcriber import Transcription

log = logging.getLogger("voxloom.server")

_EVENT_HEADERS = {
    "content-type": sse.CONTENT_TYPE,
    "cache-control": "no-cache",
    "x-accel-buffering": "no",
}
_DONE = b"data: [DONE]\n\n"
# Spoken, this is an hour and a half; nobody waits for longer answers in one piece.
_MAX_WHOLE_AUDIO_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ChatService:
    """What every chat response needs."""

    talk: TalkService
    decoders: DecoderPool
    metrics: ServerMetrics
    shelf: AudioShelf
    fetcher: AudioFetcher


class ChatResponse(Response):
    """Carries its plan out when it is sent, and closes the engine's generators whatever happens.

    ``ticket`` is for the first thing that the engine is asked for; each other needs one of its own.
    """

    def __init__(self, service: ChatService, plan: ChatPlan, ticket: Ticket) -> None:
        super().__init__()
        self._service = service
        self._plan = plan
        self._completion = Completion(plan.model)
        self._spending = Spending()
        self._clips: list[Clip] = []
        self._tickets = [ticket]
        self._has_spare_ticket = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not await run_while_connected(self._reply(scope, send), receive):
            context_of(scope).outcome = "disconnected"

    async def _reply(self, scope: Scope, send: Send) -> None:
        settings, context = self._service.talk.settings, context_of(scope)
        meter = ListenerMeter(self._service.metrics, context.started_at, self._plan.source_rate)
        sender = BodySender(send, meter, settings.send_timeout_s)
        try:
            for part in self._plan.heard:
                await self._take_in(part, context)
            if self._plan.is_stream:
                await self._send_stream(context, sender)
            else:
                await self._send_whole(context, sender)
        except Exception as error:
            await self._fail(error, context, sender)
        finally:
            # The engine has done so, but for requests that it was never asked for.
            for ticket in self._tickets:
                ticket.release()

    # --- hearing ---------------------------------------------------------------------------------

    async def _take_in(self, part: HeardPart, context: RequestContext) -> None:
        """Put what is said into the message, or the sound beside it, as the pipeline has it."""
        if part.url:
            limit = self._service.talk.settings.max_chat_bytes
            part = replace(
                part, data=await self._service.fetcher.fetch(part.url, part.param, limit)
            )
        if not self._service.talk.stages.hears_itself:
            part.part["text"] = await self._hear(part, context)
            return
        num_before = sum(map(len, self._clips))
        clip = await read_clip(self._service.decoders, part, num_before)
        self._spending.heard_ms += clip_ms(clip)
        self._clips.append(clip)
        part.part.clear()
        part.part["type"] = "audio"

    async def _hear(self, part: HeardPart, context: RequestContext) -> str:
        """What is said in a part of a message."""
        engine = self._service.talk.engine
        reader = self._service.decoders.open(io.BytesIO(part.data), part.param)
        text: list[str] = []
        try:
            job = Transcription(engine, context.engine_request_id(), reader)
            async with aclosing(job.passages({}, self._admit(), self._deadline())) as passages:
                async for passage in passages:
                    text += [segment["text"] for segment in passage.segments]
            self._spending.heard_ms += job.duration_s * 1000
        finally:
            reader.discard()
        return "".join(text).strip()

    # --- answering -------------------------------------------------------------------------------

    def _answers(self, context: RequestContext) -> list[AsyncGenerator[AnswerPart, None]]:
        """One for each choice. They share nothing but the question."""
        talk = self._service.talk
        prompt = self._plan.prompt | {"messages": self._plan.messages}
        if self._clips:
            prompt["clips"] = self._clips
        return [
            answer(
                talk.engine,
                talk.stages,
                context.engine_request_id(),
                prompt,
                speaks=self._plan.speaks,
                seed=None if self._plan.seed is None else self._plan.seed + index,
                ticket=ticket,
                deadline=self._deadline(),
            )
            for index, ticket in enumerate([self._admit() for _ in range(self._plan.num_choices)])
        ]

    async def _send_whole(self, context: RequestContext, sender: BodySender) -> None:
        answers = self._answers(context)
        choices = [self._new_choice(index) for index in range(len(answers))]
        async with asyncio.TaskGroup() as group:
            for choice, parts in zip(choices, answers, strict=True):
                group.create_task(self._collect(choice, parts))
        shown = [choice.to_json(self._keep(choice)) for choice in choices]
        whole = self._completion.whole(shown, self._spending.to_json())
        body = await asyncio.to_thread(lambda: json.dumps(whole, separators=(",", ":")).encode())
        headers = {"content-type": "application/json", "content-length": str(len(body))}
        await sender.start(headers)
        await sender.write_audio(body)
        await sender.finish()

    async def _collect(self, choice: Choice, parts: AsyncGenerator[AnswerPart, None]) -> None:
        """All of a choice. Its file has true sizes: it is coded when its length is known."""
        sound: list[memoryview] = []
        num_samples = num_bytes = 0
        async with aclosing(parts):
            async for part in parts:
                self._note(choice, part)
                if isinstance(part, SoundDelta):
                    sound.append(part.pcm)
                    num_samples += part.num_samples
                    num_bytes += len(part.pcm)
                    if num_bytes > _MAX_WHOLE_AUDIO_BYTES:
                        raise InvalidRequestError(
                            "the answer is too long for one piece; stream it", param="stream"
                        )
        if num_samples:
            encoder = self._service.talk.encoders.open(self._plan, num_samples)
            try:
                choice.audio = [bytes(await encoder.encode(pcm)) for pcm in sound]
                choice.audio.append(await encoder.close())
            finally:
                encoder.discard()

    async def _send_stream(self, context: RequestContext, sender: BodySender) -> None:
        lock = asyncio.Lock()
        async with asyncio.TaskGroup() as group:
            for index, parts in enumerate(self._answers(context)):
                choice = self._new_choice(index)
                group.create_task(self._stream_choice(choice, parts, sender, lock))
        if self._plan.includes_usage:
            await sender.write(sse.event(self._completion.spent(self._spending.to_json())))
        await sender.write(_DONE)
        await sender.finish()

    async def _stream_choice(
        self,
        choice: Choice,
        parts: AsyncGenerator[AnswerPart, None],
        sender: BodySender,
        lock: asyncio.Lock,
    ) -> None:
        """Tell one choice as it grows. The lock keeps events of several choices whole."""
        blocks = AudioBlocks()
        encoder = self._service.talk.encoders.open(self._plan)
        try:
            async with aclosing(parts):
                async for part in parts:
                    events = await self._tell(choice, part, blocks, encoder)
                    async with lock:
                        if not sender.is_started:
                            await sender.start(_EVENT_HEADERS)
                        for event in events:
                            await self._write(sender, event)
        finally:
            encoder.discard()

    async def _write(self, sender: BodySender, event: dict[str, Any]) -> None:
        choices = event["choices"]
        has_audio = bool(choices) and "data" in (choices[0]["delta"].get("audio") or {})
        data = sse.event(event)
        await (sender.write_audio(data) if has_audio else sender.write(data))

    async def _tell(
        self, choice: Choice, part: AnswerPart, blocks: AudioBlocks, encoder: AsyncEncoder
    ) -> list[dict[str, Any]]:
        """The events for a part of an answer."""
        chunk, index = self._completion.chunk, choice.index
        events = [] if choice.has_begun else [chunk(index, self._first_delta())]
        choice.has_begun = True
        if not choice.has_audio and isinstance(part, TextDelta) and self._plan.speaks:
            # Not before: an answer that only calls has no audio that could be referred to.
            choice.has_audio = True
            audio = {"id": choice.audio_id, "transcript": ""}
            events.append(chunk(index, {"content": None, "audio": audio}))
        call = self._note(choice, part)
        match part:
            case TextDelta(text):
                delta = {"audio": {"transcript": text}} if self._plan.speaks else {"content": text}
                events.append(chunk(index, delta))
            case CallDelta():
                events.append(chunk(index, {"tool_calls": [call]}))
            case SoundDelta(pcm):
                if data := blocks.add(await encoder.encode(pcm)):
                    events.append(chunk(index, {"audio": {"data": data}}))
            case AnswerEnd():
                if rest := blocks.finish():
                    events.append(chunk(index, {"audio": {"data": rest}}))
                if (expires_at := self._keep(choice)) is not None:
                    events.append(self._completion.expiry(index, expires_at))
                events.append(chunk(index, {}, choice.finish_reason))
        return events

    def _first_delta(self) -> dict[str, Any]:
        content = None if self._plan.speaks else ""
        return {"role": "assistant", "content": content, "refusal": None}

    # --- small things ----------------------------------------------------------------------------

    def _new_choice(self, index: int) -> Choice:
        return Choice(index, self._service.shelf.new_id() if self._plan.speaks else None)

    def _note(self, choice: Choice, part: AnswerPart) -> dict[str, Any] | None:
        """Take a part down; for a call, the delta that tells of it."""
        match part:
            case TextDelta(text):
                choice.text += text
            case CallDelta(index, call_id, name, arguments):
                return choice.add_call(index, call_id, name, arguments)
            case SoundDelta(_, num_samples):
                self._spending.spoken_ms += num_samples * 1000 / self._plan.source_rate
            case AnswerEnd(finish_reason, usage):
                choice.finish_reason = finish_reason
                self._spending.add(usage)
        return None

    def _keep(self, choice: Choice) -> int | None:
        """When a spoken answer expires; None for one without words."""
        if choice.audio_id is None or not choice.text:
            return None
        return self._service.shelf.put(choice.audio_id, choice.text)

    def _admit(self) -> Ticket:
        """A ticket that goes back when the response ends."""
        if self._has_spare_ticket:
            self._has_spare_ticket = False
        else:
            self._tickets.append(self._service.talk.engine.admit())
        return self._tickets[-1]

    def _deadline(self) -> float | None:
        timeout_s = self._service.talk.settings.request_timeout_s
        return None if timeout_s is None else time.monotonic() + timeout_s

    async def _fail(self, error: Exception, context: RequestContext, sender: BodySender) -> None:
        """Before the first byte the handlers answer; after it the stream ends visibly."""
        if isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        if not sender.is_started:
            raise error
        is_expected = isinstance(error, VoxloomError | TimeoutError)
        log.error(
            "%s failed in mid-stream: %s",
            context.request_id,
            error or "its client reads nothing",
            exc_info=None if is_expected else error,
        )
        context.outcome = "broken"
        if not self._plan.is_stream or sender.is_stalled:
            raise StreamBrokenError from error
        shown = error if isinstance(error, VoxloomError) else internal_error(context.request_id)
        await sender.write(sse.event(envelope(shown)))
        await sender.finish()
