"""An ElevenLabs socket as a state machine: messages and the engine's news in, effects out. No I/O.

``stream-input`` has one context, which an empty text ends; ``multi-stream-input`` has several,
spoken side by side. ``now`` is in seconds of any clock that does not go backwards. Whatever comes
in, the answer is a list of effects; nothing is raised.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum, auto

from engine.errors import AuthenticationError, InvalidRequestError, OverloadedError, VoxloomError
from server.json_body import decode_object, validate
from server.schemas.elevenlabs_socket import ALTERNATIVE_NAMES, ElevenLabsMessage
from server.sessions import elevenlabs_events as events
from server.sessions.audio_effects import parts_of
from server.sessions.effects import (
    Abort,
    ChangeVoice,
    Close,
    Effect,
    EndText,
    FlushText,
    SendEvent,
    StartUtterance,
)
from server.sessions.elevenlabs_context import Context, ContextTable
from server.sessions.speech_session import NORMAL, UNSUPPORTED_DATA, State
from server.sessions.utterance import AudioPiece, append_text
from server.speech_plan import SessionPlan


class Kind(Enum):
    SPEAK = auto()  # text, a flush, or settings of a context
    KEEP_ALIVE = auto()
    CLOSE_CONTEXT = auto()
    CLOSE_SOCKET = auto()  # on stream-input: the empty text


# What a message does. A pair that is not here is ignored: nothing counts after the end.
# A socket is NEW while the key is missing; its first message must bring it, or ends the session.
_HANDLERS: dict[State, dict[Kind, str]] = {
    State.TEXT: {
        Kind.SPEAK: "_speak",
        Kind.KEEP_ALIVE: "_keep_alive",
        Kind.CLOSE_CONTEXT: "_close_context",
        Kind.CLOSE_SOCKET: "_close_socket",
    },
    State.CLOSING: {},  # what was flushed is being spoken, then the connection closes
    State.CLOSED: {},
}

# ElevenLabs' limit.
_MAX_OPEN_CONTEXTS = 5
# Beside them, contexts whose last words are being spoken. Each holds a ticket of the engine.
_MAX_LIVE_CONTEXTS = 10
# A close frame has room for 123 bytes.
_MAX_REASON_CHARS = 120


@dataclass(frozen=True, slots=True)
class Manner:
    """How a connection was asked for.

    ``unlock`` checks a key; None if none is needed any more. ``auto_mode``: each text is spoken at
    once. ``sync_alignment``: characters come with the audio in which their word begins, timed from
    the beginning of their context; else with their sentence, timed from where the characters before
    them ended.
    """

    plan: SessionPlan
    is_multi: bool
    auto_mode: bool = False
    sync_alignment: bool = False
    unlock: Callable[[str], bool] | None = None
    max_message_chars: int = 128 * 1024
    max_context_chars: int = 1_000_000


class ElevenLabsSession:
    """One client's session."""

    def __init__(self, manner: Manner) -> None:
        self._manner = manner
        self._table = ContextTable()
        self.state = State.TEXT if manner.unlock is None else State.NEW

    def plan_of(self, index: int) -> SessionPlan:
        """How a context is spoken. Raises ``KeyError`` if it is over."""
        return self._table.live[index].plan

    def is_wanted(self, index: int) -> bool:
        """Whether the context's audio is still to be sent."""
        return index in self._table.live

    @property
    def owes_audio(self) -> bool:
        """Whether the client has asked for sound and is waiting to hear it."""
        live = self._table.live.values()
        is_ending = len(self._table.live) > len(self._table.open)
        return is_ending or any(context.is_flushed for context in live)

    # --- from the client -------------------------------------------------------------------------

    def receive_text(self, text: str, now: float) -> list[Effect]:
        """A text message."""
        if self.state in (State.CLOSING, State.CLOSED):
            return []
        try:
            message = parse_message(text, self._manner.max_message_chars)
            kind = kind_of(message, is_multi=self._manner.is_multi)
            if self.state is State.NEW:
                self._unlock(message.key)
        except VoxloomError as error:
            return self._break(error)
        handler: Callable[[ElevenLabsMessage, float], list[Effect]]
        handler = getattr(self, _HANDLERS[self.state][kind])
        return handler(message, now)

    def receive_binary(self) -> list[Effect]:
        """A binary message: nothing in this protocol is one."""
        if self.state is State.CLOSED:
            return []
        return self._break(
            InvalidRequestError("messages must be JSON text, got a binary one"), UNSUPPORTED_DATA
        )

    def time_out(self) -> list[Effect]:
        """No message came within the time that the client has asked for."""
        if self.state is State.CLOSED:
            return []
        if self._manner.is_multi and self.state is State.TEXT and not self._table.live:
            return self.end(events.POLICY_VIOLATION, "no message came in time")
        return self._break(
            InvalidRequestError(
                "no message came in time; an empty text with a context_id keeps a context alive, a "
                "space does so on stream-input",
                code="input_timeout_exceeded",
            )
        )

    def end(self, code: int, reason: str) -> list[Effect]:
        """Let go of everything, and close."""
        if self.state is State.CLOSED:
            return []
        self.state = State.CLOSED
        aborts = [abort for context in self._table.live.values() for abort in _abort(context)]
        self._table = ContextTable()
        return [*aborts, Close(code, reason)]

    # --- from the engine -------------------------------------------------------------------------

    def take_audio(self, index: int, piece: AudioPiece, now: float) -> list[Effect]:
        """A piece of a context's audio; of one that is over it is dropped."""
        context = self._table.live.get(index)
        if context is None:
            return []
        context.take_audio(piece, now)
        return self._audio(context, piece.data) if piece.data else []

    def take_end(self, index: int) -> list[Effect]:
        """All of a context's audio has come."""
        context = self._table.live.get(index)
        if context is None:
            return []
        rest = context.clock.take_rest()
        if rest is None:
            return self._finish(context)
        rate = context.plan.source_rate
        alignment = events.alignment_of(rest, rate, self._origin(rest.origin))
        last = SendEvent(events.audio_event(context.name, b"", alignment))
        return [last, *self._finish(context)]

    def take_failure(self, index: int, error: VoxloomError) -> list[Effect]:
        """The engine gave a context up."""
        context = self._table.live.get(index)
        return [] if context is None else self._fail(context, error)

    # --- handlers --------------------------------------------------------------------------------

    def _speak(self, message: ElevenLabsMessage, now: float) -> list[Effect]:
        context = self._table.open.get(message.context_id)
        if context is None:
            if not message.text and message.voice_settings is None:
                return []  # nothing to flush
            try:
                context = self._begin(message.context_id)
            except VoxloomError as error:
                return self._refuse(message.context_id, error)
        effects = self._configure(context, message)
        effects += self._append(context, message, now)
        if not context.is_started or not self.is_wanted(context.index):
            return effects
        if message.flush or (self._manner.auto_mode and message.text):
            context.utterance.clauses.settle()
            effects.append(FlushText(context.index))
        if message.flush:
            context.is_flushed = True
        return effects

    def _keep_alive(self, message: ElevenLabsMessage, now: float) -> list[Effect]:
        return []

    def _close_context(self, message: ElevenLabsMessage, now: float) -> list[Effect]:
        """Closed once, a context ends; closed again, it is silent: its listener interrupted it."""
        context = self._table.open.get(message.context_id)
        if context is not None:
            return self._close(context)
        ending = self._table.find_ending(message.context_id)
        if ending is None:
            return [SendEvent(events.final_event(message.context_id))]
        return [*_abort(ending), *self._finish(ending)]

    def _close_socket(self, message: ElevenLabsMessage, now: float) -> list[Effect]:
        self.state = State.CLOSING
        effects: list[Effect] = []
        for context in list(self._table.open.values()):
            # An empty text has all of the text before it spoken.
            context.is_flushed |= not self._manner.is_multi
            effects += self._close(context)
        if self.state is State.CLOSING and not self._table.live:
            if not effects and not self._manner.is_multi:
                effects.append(SendEvent(events.final_event(None)))
            effects += self.end(NORMAL, "")
        return effects

    # --- small things ----------------------------------------------------------------------------

    def _unlock(self, key: str | None) -> None:
        unlock = self._manner.unlock
        if unlock is not None and (key is None or not unlock(key)):
            raise AuthenticationError(
                "no API key: send the header xi-api-key, or xi_api_key in the first message"
                if key is None
                else "the API key is not one of this server's",
                code="missing_api_key" if key is None else None,
            )
        self.state = State.TEXT

    def _begin(self, name: str | None) -> Context:
        table = self._table
        if len(table.open) >= _MAX_OPEN_CONTEXTS or len(table.live) >= _MAX_LIVE_CONTEXTS:
            raise OverloadedError(
                f"this connection has {len(table.open)} open contexts and {len(table.live)} that "
                f"are not finished; there may be {_MAX_OPEN_CONTEXTS} and {_MAX_LIVE_CONTEXTS}",
                retry_after_s=1.0,
            )
        return table.begin(name, self._manner.plan)

    def _configure(self, context: Context, message: ElevenLabsMessage) -> list[Effect]:
        """Take on a message's settings; they act on the text that comes after."""
        config, settings = message.generation_config, message.voice_settings
        if config is not None and config.chunk_length_schedule:
            context.schedule = tuple(config.chunk_length_schedule)
        if settings is None or settings.speed in (None, context.speed):
            return []
        context.utterance.clauses.settle()
        changes = {"speed": settings.speed}
        context.plan = replace(context.plan, prompt=context.plan.prompt | changes)
        return [ChangeVoice(context.index, changes)] if context.is_started else []

    def _append(self, context: Context, message: ElevenLabsMessage, now: float) -> list[Effect]:
        """Pass text on. White space before the first word is none of it: it opens contexts."""
        text = message.text or ""
        if not context.is_started:
            text = text.lstrip()
        if not text:
            return []
        num_chars = context.utterance.text.num_chars + len(text)
        if num_chars > self._manner.max_context_chars:
            return self._fail(context, _too_long(num_chars, self._manner.max_context_chars))
        effects: list[Effect] = []
        if not context.is_started:
            context.is_started = True
            effects.append(StartUtterance(context.index))
        context.is_flushed &= text.isspace()
        is_cut = context.is_cut_wanted(
            len(text), now, is_triggered=bool(message.try_trigger_generation)
        )
        appended = append_text(context.utterance, text, is_cut=is_cut)
        context.num_cuts += any(isinstance(effect, FlushText) for effect in appended)
        return effects + appended

    def _close(self, context: Context) -> list[Effect]:
        """What was flushed is spoken to its end; a context that was not has been interrupted."""
        if not context.is_started:
            return self._finish(context)
        if not context.is_flushed:
            return [*_abort(context), *self._finish(context)]
        self._table.close(context)
        return [EndText(context.index)]

    def _audio(self, context: Context, data: bytes | memoryview) -> list[Effect]:
        times = context.clock.take(begun_only=self._manner.sync_alignment)
        origin = 0 if times is None else self._origin(times.origin)
        alignment = events.alignment_of(times, context.plan.source_rate, origin)
        effects: list[Effect] = []
        for part in parts_of(data):
            effects.append(SendEvent(events.audio_event(context.name, part, alignment)))
            alignment = None
        return effects

    def _origin(self, sample: int) -> int:
        return 0 if self._manner.sync_alignment else sample

    def _finish(self, context: Context) -> list[Effect]:
        self._table.remove(context)
        effects: list[Effect] = [SendEvent(events.final_event(context.name))]
        if self.state is State.CLOSING and not self._table.live:
            effects += self.end(NORMAL, "")
        return effects

    def _fail(self, context: Context, error: VoxloomError) -> list[Effect]:
        """One context's error; on stream-input it is the connection's."""
        if not self._manner.is_multi:
            return self._break(error)
        failed = SendEvent(events.error_event(error, context.name))
        return [*_abort(context), failed, *self._finish(context)]

    def _refuse(self, name: str | None, error: VoxloomError) -> list[Effect]:
        """An error about a context that was not begun."""
        return [
            SendEvent(events.error_event(error, name)),
            SendEvent(events.final_event(name)),
        ]

    def _break(self, error: VoxloomError, code: int | None = None) -> list[Effect]:
        """An error that ends the connection, as each does at ElevenLabs."""
        event = events.error_event(error)
        event["code"] = code or event["code"]
        return [SendEvent(event), *self.end(event["code"], close_reason(error.message))]


def parse_message(text: str, max_chars: int) -> ElevenLabsMessage:
    """Raises ``InvalidRequestError``."""
    if len(text) > max_chars:
        raise InvalidRequestError(f"message too large: it may hold {max_chars} characters")
    data = decode_object(text.encode("utf-8", "surrogatepass"), "the message")
    for name, proper in ALTERNATIVE_NAMES.items():
        if name in data:
            data.setdefault(proper, data[name])
    return validate(data, ElevenLabsMessage)


def kind_of(message: ElevenLabsMessage, *, is_multi: bool) -> Kind:
    """What a message wants. Raises ``InvalidRequestError`` if it says nothing."""
    if is_multi and message.close_socket:
        return Kind.CLOSE_SOCKET
    if is_multi and message.close_context:
        return Kind.CLOSE_CONTEXT
    if not is_multi and message.text == "":
        return Kind.CLOSE_SOCKET
    if message.text or message.flush or message.voice_settings is not None:
        return Kind.SPEAK
    if is_multi and message.text == "":
        return Kind.KEEP_ALIVE
    wanted = "text, flush, close_context or close_socket" if is_multi else "text or flush"
    raise InvalidRequestError(
        f"a message must have {wanted}", param="text", code="missing_required_parameter"
    )


def close_reason(message: str) -> str:
    """A message, as far as a close frame holds it."""
    return message.encode("ascii", "replace").decode("ascii")[:_MAX_REASON_CHARS]


def _abort(context: Context) -> list[Effect]:
    return [Abort(context.index)] if context.is_started else []


def _too_long(num_chars: int, max_chars: int) -> InvalidRequestError:
    return InvalidRequestError(
        f"text makes a context of {num_chars} characters; this server takes at most {max_chars}",
        param="text",
        code="string_above_max_length",
    )
