"""The shell around a speech session: it reads its socket while it sends and while audio is made.

One task reads the client's messages; one per utterance reads the engine's outputs, one utterance
after another. What the session wants to send goes into one line, in the order in which it said so.
A task that has put something there waits until it is sent: so the line stays short however slowly
the client reads, and the engine holds back by itself. A cancel reaches the engine before that wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections import deque
from contextlib import aclosing
from typing import Any, ClassVar, Protocol

import msgspec
from starlette.types import Message, Receive, Send
from starlette.websockets import WebSocketDisconnect

from engine.errors import VoxloomError
from server.catalog import ModelCatalog
from server.context import RequestContext
from server.errors import internal_error
from server.metrics import ListenerMeter
from server.schemas.speech_socket import SessionConfig, SessionUpdate
from server.sessions.effects import (
    Abort,
    Close,
    Effect,
    Order,
    Outgoing,
    SendAudio,
    SendEvent,
    StartUtterance,
)
from server.sessions.speech_session import INTERNAL_ERROR, SessionLimits, SpeechSession, State
from server.sessions.utterance import AudioPiece
from server.speech_plan import SessionPlan, plan_changes, plan_session
from server.speech_requests import SpeechRequests
from server.speech_stream import SpeechService
from server.speech_units import PieceCoder, UnitCoder, coded_pieces

log = logging.getLogger("voxloom.server")


class Session(Protocol):
    """What a socket needs of its session; see ``SpeechSession``."""

    @property
    def state(self) -> State: ...

    @property
    def owes_audio(self) -> bool: ...

    def plan_of(self, utterance_index: int, /) -> SessionPlan: ...

    def is_wanted(self, utterance_index: int, /) -> bool: ...

    def receive_text(self, text: str, now: float) -> list[Effect]: ...

    def receive_binary(self) -> list[Effect]: ...

    def time_out(self) -> list[Effect]: ...

    def end(self, code: int, reason: str) -> list[Effect]: ...

    def take_audio(
        self, utterance_index: int, piece: AudioPiece, now: float, /
    ) -> list[Effect]: ...

    def take_end(self, utterance_index: int, /) -> list[Effect]: ...

    def take_failure(self, utterance_index: int, error: VoxloomError, /) -> list[Effect]: ...


class SpeechSocket:
    """One connection that has been accepted."""

    # Whether an utterance is spoken when those before it are over, or beside them.
    in_turn: ClassVar[bool] = True

    def __init__(
        self,
        service: SpeechService,
        context: RequestContext,
        receive: Receive,
        send: Send,
        session: Session,
    ) -> None:
        self._service = service
        self._settings = service.settings
        self._context = context
        self._receive, self._send = receive, send
        self._session = session
        self._requests = SpeechRequests(service.engine, context, self._settings.request_timeout_s)
        self._speakers: dict[int, asyncio.Task[None]] = {}
        self._line: deque[Outgoing] = deque()
        self._turn = asyncio.Lock()
        self._is_gone = False
        self._broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._quiet_from = time.monotonic()

    async def run(self) -> None:
        """Serve the client until one of the two closes; nothing is left of it then."""
        reader = asyncio.create_task(self._read())
        try:
            await asyncio.wait((reader, self._broken), return_when=asyncio.FIRST_COMPLETED)
            if reader.done():
                await reader
        except TimeoutError:
            self._break("its client reads nothing")
        except Exception as error:
            self._context.outcome = "broken"
            log.error("%s failed", self._context.request_id, exc_info=error)
            with contextlib.suppress(TimeoutError):
                await self._perform(self._session.end(INTERNAL_ERROR, "internal error"))
        finally:
            await self._let_go(reader)

    # --- the client's messages -------------------------------------------------------------------

    async def _read(self) -> None:
        while self._session.state is not State.CLOSED:
            message = await self._next_message()
            now = time.monotonic()
            if message is None:
                effects = self._session.time_out()
            elif message["type"] == "websocket.disconnect":
                self._is_gone = True
                if self._speakers:
                    self._context.outcome = "disconnected"
                return
            elif (text := message.get("text")) is not None:
                effects = self._session.receive_text(text, now)
            else:
                effects = self._session.receive_binary()
            self._quiet_from = max(self._quiet_from, now)
            await self._perform(effects)

    async def _next_message(self) -> Message | None:
        """The next one, or None if the client has been quiet for too long."""
        while True:
            if self._session.owes_audio:
                # It waits for us, as it should: a queue or a replica's restart may take a while.
                self._quiet_from = max(self._quiet_from, time.monotonic())
            remaining_s = self._quiet_from + self._patience_s() - time.monotonic()
            if remaining_s <= 0:
                return None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(remaining_s):
                    return await self._receive()

    def _patience_s(self) -> float:
        """How long the client may be quiet."""
        if self._session.state is State.NEW:
            return self._settings.socket_config_timeout_s
        return self._settings.socket_idle_timeout_s

    # --- what the session wants ------------------------------------------------------------------

    async def _perform(self, effects: list[Effect]) -> None:
        """Carry effects out. What is sent gets its place in the line before anything waits."""
        orders: list[Order] = []
        for effect in effects:
            if isinstance(effect, SendEvent | SendAudio | Close):
                self._line.append(effect)
            elif isinstance(effect, Abort):
                self._requests.abort(effect.utterance_index)
            else:
                orders.append(effect)
        for order in orders:
            await self._order(order)
        await self._send_line()

    async def _order(self, order: Order) -> None:
        """Have the engine do something; an utterance that it refuses has failed."""
        index = order.utterance_index
        if not self._session.is_wanted(index):
            return
        try:
            await self._requests.carry_out(order, self._session.plan_of(index))
        except VoxloomError as error:
            await self._perform(self._session.take_failure(index, error))
            return
        if isinstance(order, StartUtterance):
            before = list(self._speakers.values())[-1:] if self.in_turn else []
            plan = self._session.plan_of(index)
            self._speakers[index] = asyncio.create_task(self._speak(index, plan, before))

    async def _send_line(self) -> None:
        async with self._turn:
            while self._line and not self._is_gone:
                item = self._line.popleft()
                try:
                    async with asyncio.timeout(self._settings.send_timeout_s):
                        await self._send(_frame(item))
                except WebSocketDisconnect:
                    self._is_gone = True
                self._quiet_from = max(self._quiet_from, time.monotonic())

    # --- the engine's audio ----------------------------------------------------------------------

    async def _speak(self, index: int, plan: SessionPlan, before: list[asyncio.Task[None]]) -> None:
        """Send one utterance, after those before it."""
        try:
            if before:
                await asyncio.wait(before)
            await self._perform(await self._outcome(index, plan))
        except TimeoutError:
            self._break("its client reads nothing")
        finally:
            self._speakers.pop(index, None)
            self._requests.forget(index)

    async def _outcome(self, index: int, plan: SessionPlan) -> list[Effect]:
        """What follows an utterance's audio."""
        try:
            await self._send_audio(index, plan)
        except TimeoutError:
            raise
        except VoxloomError as error:
            return self._session.take_failure(index, error)
        except Exception as error:
            log.error("%s failed to speak", self._context.request_id, exc_info=error)
            failure = internal_error(self._context.request_id)
            return self._session.take_failure(index, failure)
        return self._session.take_end(index)

    async def _send_audio(self, index: int, plan: SessionPlan) -> None:
        meter = ListenerMeter(
            self._service.metrics, self._requests.started_at(index), plan.source_rate
        )
        coder = self._open_coder(plan)
        has_sent = False
        async with (
            aclosing(self._requests.outputs(index)) as outputs,
            aclosing(coded_pieces(outputs, coder, meter)) as pieces,
        ):
            async for piece in pieces:
                if not self._session.is_wanted(index):
                    return
                before = time.monotonic()
                await self._perform(self._session.take_audio(index, piece, before))
                meter.add_blocked(time.monotonic() - before)
                self._note_playing(piece, plan)
                if piece.data and not has_sent:
                    has_sent = True
                    meter.first_byte_sent()

    def _open_coder(self, plan: SessionPlan) -> PieceCoder:
        return UnitCoder(self._service.encoders, plan, self._settings.max_complete_s)

    def _note_playing(self, piece: AudioPiece, plan: SessionPlan) -> None:
        """A client is not idle while it plays what it got."""
        started_at = max(self._quiet_from, time.monotonic())
        self._quiet_from = started_at + piece.num_samples / plan.source_rate

    # --- the end ---------------------------------------------------------------------------------

    def _break(self, reason: str) -> None:
        self._context.outcome = "broken"
        log.warning("%s ends: %s", self._context.request_id, reason)
        if not self._broken.done():
            self._broken.set_result(None)

    async def _let_go(self, reader: asyncio.Task[None]) -> None:
        for effect in self._session.end(INTERNAL_ERROR, ""):
            if isinstance(effect, Abort):
                self._requests.abort(effect.utterance_index)
        tasks = [reader, *self._speakers.values()]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await self._requests.close()


def new_session(service: SpeechService, catalog: ModelCatalog) -> SpeechSession:
    """The session of ``/v1/audio/speech/stream`` on this server."""
    limit = service.settings.max_input_chars or service.settings.max_body_bytes
    limits = SessionLimits(max_utterance_chars=limit)
    return SpeechSession(ServerResolver(service, catalog), limits)


class ServerResolver:
    """What configurations mean on this server."""

    def __init__(self, service: SpeechService, catalog: ModelCatalog) -> None:
        self._engine = service.engine
        self._catalog = catalog

    def plan(self, config: SessionConfig) -> SessionPlan:
        return plan_session(config, self._engine, self._catalog)

    def changes(self, update: SessionUpdate) -> dict[str, Any]:
        return plan_changes(update, self._engine)


def _frame(item: Outgoing) -> Message:
    match item:
        case SendEvent(data):
            return {"type": "websocket.send", "text": _as_json(data)}
        case SendAudio(audio):
            return {"type": "websocket.send", "bytes": audio}
        case Close(code, reason):
            return {"type": "websocket.close", "code": code, "reason": reason}


def _as_json(data: dict[str, Any]) -> str:
    try:
        return msgspec.json.encode(data).decode()
    except UnicodeEncodeError:  # an error repeats what a client sent: half of a surrogate pair
        return json.dumps(data)
