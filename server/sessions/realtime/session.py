"""A realtime WebSocket as a state machine: events and the engine's news in, effects out. No I/O.

``now`` is in seconds of any clock that does not go backwards. Whatever comes in, the answer is a
list of effects; nothing is raised. What is wrong is answered by an ``error`` event that names the
client's event, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import Any

from engine.errors import InvalidRequestError, RequestError, VoxloomError
from server.json_body import quoted
from server.sessions.effects import Close, SendEvent
from server.sessions.realtime.checks import number, optional, required, text
from server.sessions.realtime.config import RealtimeConfig
from server.sessions.realtime.conversation import Conversation
from server.sessions.realtime.effects import Effect
from server.sessions.realtime.events import read_event
from server.sessions.realtime.hearing import Hearing, item_events
from server.sessions.realtime.items import MAX_ID_CHARS, Item, decode_audio, parse_item
from server.sessions.realtime.replies import Replies
from server.sessions.realtime.response import Usage
from server.sessions.realtime.spec import Abilities, SessionSpec, random_id
from server.sessions.realtime.spoken_text import Mark


class State(Enum):
    REALTIME = auto()  # listens and answers
    TRANSCRIPTION = auto()  # listens
    CLOSED = auto()


# What a client's event does. An event that is not here is answered by an error.
_LISTENING = {
    "session.update": "_update",
    "input_audio_buffer.append": "_append",
    "input_audio_buffer.commit": "_commit",
    "input_audio_buffer.clear": "_clear",
}
_HANDLERS: dict[State, dict[str, str]] = {
    State.REALTIME: _LISTENING
    | {
        "conversation.item.create": "_create_item",
        "conversation.item.retrieve": "_retrieve_item",
        "conversation.item.truncate": "_truncate_item",
        "conversation.item.delete": "_delete_item",
        "response.create": "_create_response",
        "response.cancel": "_cancel_response",
        "output_audio_buffer.clear": "_clear_output",
    },
    State.TRANSCRIPTION: _LISTENING,
    State.CLOSED: {},
}

# RFC 6455, section 7.4.1.
NORMAL, UNSUPPORTED_DATA, POLICY_VIOLATION, INTERNAL_ERROR = 1000, 1003, 1008, 1011


class RealtimeSession:
    """One client's session."""

    def __init__(
        self, spec: SessionSpec, abilities: Abilities, new_id: Callable[[str], str] = random_id
    ) -> None:
        self._new_id = new_id
        self._spec = spec
        self.config = RealtimeConfig(
            new_id("sess"),
            spec.model,
            spec.voice,
            abilities=abilities,
            kind=spec.kind,
            expires_at=spec.expires_at,
        )
        self._conversation = Conversation()
        self._hearing = Hearing(
            self.config,
            self._conversation,
            self,
            lambda: new_id("item"),
            model_hears=spec.model_hears,
        )
        self._replies = Replies(
            self.config, self._conversation, self._hearing, new_id("conv"), new_id
        )
        self._turns_to_answer: set[str] = set()
        self._unanswered: set[str] = set()
        self._ends_at: float | None = None
        self._idle_at: float | None = None
        self.state = State[spec.kind.upper()]

    # --- life ------------------------------------------------------------------------------------

    def start(self, now: float) -> list[Effect]:
        """The client is there."""
        self._ends_at = now + self._spec.lifetime_s
        if self._spec.initial is not None:
            self.config.update(self._spec.initial)
            self._hearing.change_format()
        return self._number([SendEvent({"type": "session.created", "session": self._shown()})])

    @property
    def next_deadline(self) -> float | None:
        """When ``time_out`` is due if nothing else happens."""
        times = [at for at in (self._ends_at, self._idle_at) if at is not None]
        return min(times, default=None)

    def time_out(self, now: float) -> list[Effect]:
        """The session's time is up, or the user has been silent for too long."""
        if self.state is State.CLOSED:
            return []
        if self._ends_at is not None and now >= self._ends_at:
            error = InvalidRequestError(
                f"Your session hit the maximum duration of {self._spec.lifetime_s / 60:g} minutes.",
                code="session_expired",
            )
            return [*self._error(error, None), *self.end(POLICY_VIOLATION, "session expired")]
        if self._idle_at is None or now < self._idle_at:
            return []
        return self._number(self._take_silence(now))

    def end(self, code: int, reason: str) -> list[Effect]:
        """Let go of everything, and close."""
        if self.state is State.CLOSED:
            return []
        self.state = State.CLOSED
        self._ends_at = self._idle_at = None
        return [*self._hearing.end(), *self._replies.end(), Close(code, reason)]

    # --- from the client -------------------------------------------------------------------------

    def receive_text(self, message: str, now: float) -> list[Effect]:
        """A text message. Reading a large one takes long: see ``read_event``."""
        return self.receive_event(read_event(message), now)

    def receive_event(self, data: dict[str, Any] | VoxloomError, now: float) -> list[Effect]:
        """What ``read_event`` has made of a message."""
        if self.state is State.CLOSED:
            return []
        if isinstance(data, VoxloomError):
            return self._error(data, None)
        event_id: str | None = None
        try:
            event_id = optional(text(512))(data.get("event_id"), "event_id")
            handler: Callable[[dict[str, Any], float], list[Effect]]
            handler = getattr(self, self._handler_name(data))
            return self._number(handler(data, now))
        except VoxloomError as error:
            return self._error(error, event_id)
        except RecursionError:
            nested = InvalidRequestError("The event is nested too deeply.", code="invalid_event")
            return self._error(nested, event_id)

    def receive_binary(self) -> list[Effect]:
        """A binary message: nothing in this protocol is one."""
        if self.state is State.CLOSED:
            return []
        error = InvalidRequestError("Messages must be JSON text, got a binary one.", param="type")
        return self._error(error, None)

    # --- from the engine -------------------------------------------------------------------------

    def take_speech_started(self, epoch: int, start_ms: int, now: float) -> list[Effect]:
        """In the live stream of that epoch a turn has begun."""
        return self._number(self._hearing.take_speech_started(epoch, start_ms, now))

    def take_speech_stopped(self, epoch: int, end_ms: int, now: float) -> list[Effect]:
        return self._number(self._hearing.take_speech_stopped(epoch, end_ms, now))

    def take_live_words(self, epoch: int, start_ms: int, words: str, now: float) -> list[Effect]:
        """What was said in the turn of the live stream that starts at ``start_ms``."""
        return self._number(self._hearing.take_live_words(epoch, start_ms, words, now))

    def take_listening_failure(self, epoch: int, error: VoxloomError, now: float) -> list[Effect]:
        return self._number(self._hearing.take_listening_failure(epoch, error, now))

    def take_words_delta(self, item_id: str, delta: str) -> list[Effect]:
        """More of what an item says."""
        return self._number(self._hearing.take_words_delta(item_id, delta))

    def take_words(self, item_id: str, words: str, now: float) -> list[Effect]:
        """All that an item says."""
        return self._number(self._hearing.take_words(item_id, words, now))

    def take_words_failure(self, item_id: str, error: VoxloomError, now: float) -> list[Effect]:
        return self._number(self._hearing.take_words_failure(item_id, error, now))

    def take_text(self, response_id: str, delta: str) -> list[Effect]:
        """More of an answer's text."""
        return self._number(self._replies.take_text(response_id, delta))

    def take_audio(
        self, response_id: str, data: bytes, duration_ms: float, marks: list[Mark], now: float
    ) -> list[Effect]:
        """More of its sound, coded, and where words end in it."""
        return self._number(self._replies.take_audio(response_id, data, duration_ms, marks, now))

    def take_call(
        self, response_id: str, index: int, call_id: str, name: str, arguments: str
    ) -> list[Effect]:
        """More of its ``index``-th function call."""
        return self._number(self._replies.take_call(response_id, index, call_id, name, arguments))

    def take_response_end(
        self, response_id: str, finish_reason: str, usage: Usage, now: float
    ) -> list[Effect]:
        self._await_user(response_id, now)
        effects = self._replies.take_end(response_id, finish_reason, usage)
        return self._number([*effects, *self._answer_turns(now)])

    def take_response_failure(
        self, response_id: str, error: VoxloomError, now: float
    ) -> list[Effect]:
        effects = self._replies.take_failure(response_id, error)
        return self._number([*effects, *self._answer_turns(now)])

    # --- what the listening half tells (TurnListener) --------------------------------------------

    def on_speech(self, now: float) -> list[Effect]:
        self._idle_at = None
        rules = self.config.turn_rules
        if self.state is State.REALTIME and rules is not None and rules.interrupt_response:
            return self._replies.interrupt()
        return []

    def on_turn(self, item: Item, now: float) -> list[Effect]:
        rules = self.config.turn_rules
        if self.state is not State.REALTIME or rules is None or not rules.create_response:
            return []
        if item.awaits_transcript:
            self._turns_to_answer.add(item.id)
            return []
        self._unanswered.add(item.id)
        return self._answer_turns(now)

    def on_words(self, item: Item, now: float) -> list[Effect]:
        """A turn without words (a cough, a door) is not answered.

        One whose words come while the user already speaks again is answered with the next turn,
        even if that one has no words; one that was said into an answer, after that.
        """
        effects = self._replies.on_words()
        if item.id in self._turns_to_answer:
            self._turns_to_answer.discard(item.id)
            if item.text.strip():
                self._unanswered.add(item.id)
        return effects + self._answer_turns(now)

    def _answer_turns(self, now: float) -> list[Effect]:
        """Answer what was said, unless somebody is speaking: the model, or the user again."""
        self._unanswered -= self._replies.answered
        self._unanswered = {i for i in self._unanswered if self._conversation.find(i) is not None}
        if not self._unanswered or self._hearing.is_speaking or self._replies.active is not None:
            return []
        self._idle_at = None
        return self._replies.answer_turn(now)

    # --- handlers --------------------------------------------------------------------------------

    def _update(self, data: dict[str, Any], now: float) -> list[Effect]:
        undo = self.config.to_json()
        self.config.update(required(data, "session"))
        try:
            self._hearing.change_format()
        except VoxloomError:
            self.config.restore(undo)
            raise
        shown = SendEvent({"type": "session.updated", "session": self._shown()})
        return [*self._hearing.change_options(), shown]

    def _append(self, data: dict[str, Any], now: float) -> list[Effect]:
        pcm = decode_audio(required(data, "audio"), "audio", self.config.input_format)
        return self._hearing.append(pcm, now) if pcm else []

    def _commit(self, data: dict[str, Any], now: float) -> list[Effect]:
        return self._hearing.commit(now)

    def _clear(self, data: dict[str, Any], now: float) -> list[Effect]:
        return self._hearing.clear()

    def _create_item(self, data: dict[str, Any], now: float) -> list[Effect]:
        given, fmt = required(data, "item"), self.config.input_format
        item = parse_item(given, "item", lambda: self._new_id("item"), fmt)
        after = optional(text(MAX_ID_CHARS))(data.get("previous_item_id"), "previous_item_id")
        unwritten = self._hearing.admit([item])
        effects = item_events(item, self._conversation.insert(item, after))
        return effects + (self._hearing.recognise(item) if unwritten else [])

    def _retrieve_item(self, data: dict[str, Any], now: float) -> list[Effect]:
        item = self._conversation.get(_item_id(data), "retrieve")
        shown = item.to_json(audio_in=self.config.input_format)
        return [SendEvent({"type": "conversation.item.retrieved", "item": shown})]

    def _truncate_item(self, data: dict[str, Any], now: float) -> list[Effect]:
        """What was not heard is taken out of the conversation."""
        item = self._conversation.get(_item_id(data), "truncate")
        number(0, 0, whole=True)(data.get("content_index", 0), "content_index")
        end_ms = number(0, 2**31, whole=True)(required(data, "audio_end_ms"), "audio_end_ms")
        item.truncate(end_ms)
        answer = {"item_id": item.id, "content_index": 0, "audio_end_ms": end_ms}
        return [SendEvent({"type": "conversation.item.truncated", **answer})]

    def _delete_item(self, data: dict[str, Any], now: float) -> list[Effect]:
        item = self._conversation.delete(_item_id(data))
        self._turns_to_answer.discard(item.id)
        item.awaits_transcript = False
        deleted = SendEvent({"type": "conversation.item.deleted", "item_id": item.id})
        return [*self._hearing.forget(item.id), deleted, *self._replies.on_words()]

    def _create_response(self, data: dict[str, Any], now: float) -> list[Effect]:
        effects = self._replies.create(data, now)
        self._idle_at = None
        return effects

    def _cancel_response(self, data: dict[str, Any], now: float) -> list[Effect]:
        chosen = optional(text(MAX_ID_CHARS))(data.get("response_id"), "response_id")
        return self._replies.cancel(chosen, now)

    def _clear_output(self, data: dict[str, Any], now: float) -> list[Effect]:
        """Clients of a WebSocket hold the sound themselves: there is nothing to clear here."""
        active = self._replies.active
        cleared = {
            "type": "output_audio_buffer.cleared",
            "response_id": active.id if active else "",
        }
        return [SendEvent(cleared)]

    # --- small things ----------------------------------------------------------------------------

    def _shown(self) -> dict[str, Any]:
        return self.config.to_json()

    def _handler_name(self, data: dict[str, Any]) -> str:
        kind = data.get("type")
        if kind is None:
            raise InvalidRequestError("The 'type' field is missing.", code="invalid_event")
        known = _HANDLERS[self.state]
        if not isinstance(kind, str) or kind not in known:
            raise InvalidRequestError(
                f"Invalid value: {quoted(kind)}. Supported values are: {', '.join(known)}.",
                param="type",
                code="invalid_value",
            )
        return known[kind]

    def _await_user(self, response_id: str, now: float) -> None:
        """From when its sound has been played, the user's silence is counted."""
        rules, active = self.config.turn_rules, self._replies.active
        if active is None or active.id != response_id:
            return
        if rules is None or rules.idle_timeout_ms is None:
            return
        begun_at = now if active.first_audio_at is None else active.first_audio_at
        played_at = max(now, begun_at + active.audio_ms / 1000)
        self._idle_at = played_at + rules.idle_timeout_ms / 1000

    def _take_silence(self, now: float) -> list[Effect]:
        """The user's turn, in which nothing was said; the model is to speak again."""
        self._idle_at = None
        rules = self.config.turn_rules
        is_busy = self._hearing.is_speaking or self._replies.active is not None
        if rules is None or rules.idle_timeout_ms is None or is_busy:
            return []
        end_ms = self._hearing.end_ms
        item = Item(self._new_id("item"), "message", "user", is_silent=True)
        item.parts = [{"type": "input_audio", "transcript": ""}]
        start_ms = max(end_ms - rules.idle_timeout_ms, 0)
        triggered = {"item_id": item.id, "audio_start_ms": start_ms, "audio_end_ms": end_ms}
        event = SendEvent({"type": "input_audio_buffer.timeout_triggered", **triggered})
        return [event, *self._hearing.add_turn(item), *self._replies.answer_turn(now)]

    def _number(self, effects: list[Effect]) -> list[Effect]:
        """Give each event its id."""
        if self.state is State.CLOSED:
            return []
        return [
            SendEvent({"event_id": self._new_id("event")} | effect.data)
            if isinstance(effect, SendEvent)
            else effect
            for effect in effects
        ]

    def _error(self, error: VoxloomError, event_id: str | None) -> list[Effect]:
        kind = "invalid_request_error" if isinstance(error, RequestError) else "server_error"
        shown = {
            "type": kind,
            "code": error.code,
            "message": error.message,
            "param": error.param,
            "event_id": event_id,
        }
        return self._number([SendEvent({"type": "error", "error": shown})])


def _item_id(data: dict[str, Any]) -> str:
    item_id: str = text(MAX_ID_CHARS)(required(data, "item_id"), "item_id")
    return item_id
