"""The shell around a realtime session: it reads its socket while it listens, thinks and speaks.

One task reads the client's events, one sends, one follows the live stream, one each answer and each
recording that is written down. What the session wants to send goes into one line, in the order in
which it said so; a task that has put something there waits while the line is long, so it stays
short however slowly the client reads. A cancel reaches the engine before that wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections import deque
from collections.abc import Coroutine
from contextlib import aclosing
from typing import Any

from starlette.types import Message, Receive, Send
from starlette.websockets import WebSocketDisconnect

from engine.errors import VoxloomError
from server.context import RequestContext
from server.errors import internal_error
from server.sessions.effects import Close, SendEvent
from server.sessions.realtime.effects import (
    CancelResponse,
    ChangeListening,
    Effect,
    ForgetRecognition,
    Listen,
    Recognise,
    ResponseOrder,
    StartListening,
    StartResponse,
    StopListening,
)
from server.sessions.realtime.events import is_small, read_event
from server.sessions.realtime.session import INTERNAL_ERROR, RealtimeSession, State
from server.talk.answers import (
    AnswerEnd,
    AnswerPart,
    CallDelta,
    SoundDelta,
    TextDelta,
    answer,
)
from server.talk.live_ear import EarNews, LiveEar, SpeechBegan, SpeechEnded, WordsFound
from server.talk.service import TalkService
from server.talk.session_orders import (
    coding_of,
    hints_of,
    prompt_of,
    read_clip,
    read_sounds,
    usage_of,
)
from server.transcriber import Transcription

log = logging.getLogger("voxloom.server")

# Events that wait to be sent before the client's own events are read no further: the answers to
# some, and the tail of a response. Sound waits behind fewer, for an event of it is larger.
_MAX_LINE, _MAX_SOUNDS = 256, 8
# Recordings of one session that are written down at once; the others wait for their turn.
_MAX_RECORDINGS = 4


class RealtimeSocket:
    """One connection that has been accepted."""

    def __init__(
        self,
        service: TalkService,
        session: RealtimeSession,
        context: RequestContext,
        receive: Receive,
        send: Send,
    ) -> None:
        self._service = service
        self._session = session
        self._context = context
        self._receive, self._send = receive, send
        self._line: deque[SendEvent | Close] = deque()
        self._has_line = asyncio.Event()
        self._has_room = asyncio.Event()
        self._is_gone = False
        self._ear: LiveEar | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._recordings = asyncio.Semaphore(_MAX_RECORDINGS)
        self._broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        """Serve the client until one of the two closes; nothing is left of it then."""
        reader = asyncio.create_task(self._read())
        sender = asyncio.create_task(self._send_line())
        try:
            await asyncio.wait((reader, sender, self._broken), return_when=asyncio.FIRST_COMPLETED)
            if reader.done():
                await reader
            if sender.done() or (reader.done() and not self._is_gone):
                await sender
        except TimeoutError:
            self._break("its client reads nothing")
        except Exception as error:
            self._context.outcome = "broken"
            log.error("%s failed", self._context.request_id, exc_info=error)
            if not sender.done():
                self._line.append(Close(INTERNAL_ERROR, "internal error"))
                self._has_line.set()
                with contextlib.suppress(TimeoutError):
                    await sender
        finally:
            await self._let_go(reader, sender)

    # --- the client's events ---------------------------------------------------------------------

    async def _read(self) -> None:
        await self._perform(self._session.start(time.monotonic()))
        while self._session.state is not State.CLOSED:
            message = await self._next_message()
            now = time.monotonic()
            if message is None:
                effects = self._session.time_out(now)
            elif message["type"] == "websocket.disconnect":
                self._is_gone = True
                self._has_room.set()
                return
            elif (text := message.get("text")) is not None:
                effects = await self._take_message(text)
            else:
                effects = self._session.receive_binary()
            await self._perform(effects)

    async def _take_message(self, text: str) -> list[Effect]:
        """A large one is read on a thread: the event loop has others to serve."""
        if is_small(text):
            return self._session.receive_text(text, time.monotonic())
        event = await asyncio.to_thread(read_event, text)
        return self._session.receive_event(event, time.monotonic())

    async def _next_message(self) -> Message | None:
        """The next one, or None when the session's deadline has come."""
        deadline = self._session.next_deadline
        delay_s = None if deadline is None else max(deadline - time.monotonic(), 0.0)
        try:
            async with asyncio.timeout(delay_s):
                return await self._receive()
        except TimeoutError:
            return None

    # --- what the session wants ------------------------------------------------------------------

    async def _perform(self, effects: list[Effect], max_line: int = _MAX_LINE) -> None:
        """Carry effects out. What is sent gets its place in the line before anything waits.

        Returns when no more than ``max_line`` items wait there.
        """
        orders: list[Effect] = []
        for effect in effects:
            if isinstance(effect, SendEvent | Close):
                self._line.append(effect)
            elif isinstance(effect, CancelResponse):
                self._stop(f"response {effect.response_id}")
            elif isinstance(effect, ForgetRecognition):
                self._stop(f"item {effect.item_id}")
            else:
                orders.append(effect)
        self._has_line.set()
        for order in orders:
            await self._order(order)
        while len(self._line) > max_line and not self._is_gone:
            self._has_room.clear()
            await self._has_room.wait()

    async def _order(self, order: Effect) -> None:
        match order:
            case StartListening():
                await self._start_listening(order)
            case Listen(pcm, rate):
                await self._tell_ear(lambda ear: ear.hear(pcm, rate))
            case ChangeListening(options):
                await self._tell_ear(lambda ear: ear.change(options))
            case StopListening():
                await self._tell_ear(lambda ear: ear.close())
                self._ear = None
            case Recognise():
                self._begin(f"item {order.item_id}", self._recognise(order))
            case StartResponse(response_id, what):
                self._begin(f"response {response_id}", self._respond(response_id, what))

    def _begin(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(self._guarded(work), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _stop(self, name: str) -> None:
        """Clients may use an item's id again: one of that name may be about to end already."""
        for task in self._tasks:
            if task.get_name() == name:
                task.cancel()

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except TimeoutError:
            self._break("its client reads nothing")
        except Exception as error:
            log.error("%s failed", self._context.request_id, exc_info=error)
            self._break("it failed")

    async def _send_line(self) -> None:
        """Send what the session wants to send, until its end. The one task that sends.

        Another task that sent could be cancelled in the middle, and with it somebody else's event.
        """
        while not self._is_gone:
            while not self._line:
                self._has_line.clear()
                await self._has_line.wait()
            item = self._line.popleft()
            self._has_room.set()
            try:
                async with asyncio.timeout(self._service.settings.send_timeout_s):
                    await self._send(_frame(item))
            except WebSocketDisconnect:
                self._is_gone = True
            if isinstance(item, Close):
                return
        self._line.clear()
        self._has_room.set()

    # --- listening -------------------------------------------------------------------------------

    async def _start_listening(self, order: StartListening) -> None:
        request_id = self._context.engine_request_id()
        service = self._service
        ear = LiveEar(service.engine, service.stages.writing, request_id, order.start_ms)
        try:
            await ear.open(order.options)
        except VoxloomError as error:
            await self._lose_ear(order.epoch, error)
            return
        self._ear = ear  # one that was closed before is followed to its end
        self._begin(f"ear {order.epoch}", self._follow(ear, order.epoch))

    async def _tell_ear(self, tell: Any) -> None:
        """Tell the stream; of one that has broken its follower says so."""
        if self._ear is not None:
            with contextlib.suppress(VoxloomError):
                await tell(self._ear)

    async def _follow(self, ear: LiveEar, epoch: int) -> None:
        try:
            async with aclosing(ear.news()) as news:
                async for item in news:
                    await self._perform(self._heard(item, epoch))
        except VoxloomError as error:
            if self._ear is ear:
                self._ear = None
            await self._lose_ear(epoch, error)
        finally:
            await asyncio.shield(ear.abort())

    def _heard(self, item: EarNews, epoch: int) -> list[Effect]:
        session, now = self._session, time.monotonic()
        match item:
            case SpeechBegan(start_ms):
                return session.take_speech_started(epoch, start_ms, now)
            case SpeechEnded(end_ms):
                return session.take_speech_stopped(epoch, end_ms, now)
            case WordsFound(start_ms, text):
                return session.take_live_words(epoch, start_ms, text, now)

    async def _lose_ear(self, epoch: int, error: VoxloomError) -> None:
        log.warning("%s cannot listen: %s", self._context.request_id, error.message)
        effects = self._session.take_listening_failure(epoch, error, time.monotonic())
        await self._perform(effects)

    async def _recognise(self, order: Recognise) -> None:
        try:
            async with self._recordings:
                words = await self._written(order)
        except VoxloomError as error:
            effects = self._session.take_words_failure(order.item_id, error, time.monotonic())
        else:
            effects = self._session.take_words(order.item_id, words, time.monotonic())
        await self._perform(effects)

    async def _written(self, order: Recognise) -> str:
        """The words of a recording; its passages are told as they come."""
        engine = await self._service.recogniser()
        clip = await asyncio.to_thread(read_clip, order.clip)
        recording = Transcription(engine, self._context.engine_request_id(), clip)
        text = ""
        ticket = engine.admit()
        passages = recording.passages(hints_of(order.hints), ticket, None)
        try:
            async with aclosing(passages):
                async for passage in passages:
                    delta = "".join(segment["text"] for segment in passage.segments)
                    delta = delta if text else delta.lstrip()
                    text += delta
                    await self._perform(self._session.take_words_delta(order.item_id, delta))
        finally:
            ticket.release()
        return text.strip()

    # --- answering -------------------------------------------------------------------------------

    async def _respond(self, response_id: str, order: ResponseOrder) -> None:
        try:
            await self._answer(response_id, order)
        except VoxloomError as error:
            await self._fail(response_id, error)
        except (TimeoutError, asyncio.CancelledError):
            raise
        except Exception as error:
            log.error("%s failed to answer", self._context.request_id, exc_info=error)
            failure = internal_error(self._context.request_id)
            await self._fail(response_id, failure)

    async def _fail(self, response_id: str, error: VoxloomError) -> None:
        now = time.monotonic()
        await self._perform(self._session.take_response_failure(response_id, error, now))

    async def _answer(self, response_id: str, order: ResponseOrder) -> None:
        service = self._service
        rate = service.engine.pipeline.sample_rate
        prompt = prompt_of(order)
        if order.clips:
            prompt["clips"] = await asyncio.to_thread(read_sounds, order.clips)
        encoder = service.encoders.open(coding_of(order, rate))
        parts = answer(
            service.engine,
            service.stages,
            self._context.engine_request_id(),
            prompt,
            speaks=order.voice is not None,
            ticket=service.engine.admit(),
        )
        try:
            async with aclosing(parts):
                async for part in parts:
                    data = b""
                    if isinstance(part, SoundDelta):
                        data = bytes(await encoder.encode(part.pcm))
                    elif isinstance(part, AnswerEnd) and (tail := await encoder.close()):
                        sound = SoundDelta(memoryview(b""), 0)
                        await self._perform(self._take(response_id, sound, tail, rate))
                    news = self._take(response_id, part, data, rate)
                    await self._perform(news, _MAX_SOUNDS)
        finally:
            encoder.discard()

    def _take(self, response_id: str, part: AnswerPart, data: bytes, rate: int) -> list[Effect]:
        session, now = self._session, time.monotonic()
        match part:
            case TextDelta(text):
                return session.take_text(response_id, text)
            case CallDelta(index, call_id, name, arguments):
                return session.take_call(response_id, index, call_id, name, arguments)
            case SoundDelta(_, num_samples, words):
                marks = [(word.last_sample * 1000 / rate, word.last_char) for word in words]
                duration_ms = num_samples * 1000 / rate
                return session.take_audio(response_id, data, duration_ms, marks, now)
            case AnswerEnd(finish_reason, usage):
                return session.take_response_end(response_id, finish_reason, usage_of(usage), now)

    # --- the end ---------------------------------------------------------------------------------

    def _break(self, reason: str) -> None:
        self._context.outcome = "broken"
        log.warning("%s ends: %s", self._context.request_id, reason)
        if not self._broken.done():
            self._broken.set_result(None)

    async def _let_go(self, reader: asyncio.Task[None], sender: asyncio.Task[None]) -> None:
        self._session.end(INTERNAL_ERROR, "")
        tasks = [reader, sender, *self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


def _frame(item: SendEvent | Close) -> Message:
    match item:
        case SendEvent(data):
            text = json.dumps(data, separators=(",", ":"))
            return {"type": "websocket.send", "text": text}
        case Close(code, reason):
            return {"type": "websocket.close", "code": code, "reason": reason}
