"""A speech WebSocket as a state machine: messages and the engine's news in, effects out. No I/O.

``now`` is in seconds of any clock that does not go backwards. Whatever comes in, the answer is a
list of effects; nothing is raised.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Any, Protocol

from engine.errors import InvalidRequestError, OverloadedError, VoxloomError
from server.json_body import validate
from server.schemas.speech_socket import InputCancel, InputText, SessionConfig, SessionUpdate
from server.sessions import speech_events as events
from server.sessions.audio_effects import audio_effects, end_unit
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
from server.sessions.messages import parse_message
from server.sessions.utterance import AudioPiece, Utterance, append_text
from server.speech_plan import SessionPlan


class State(Enum):
    NEW = auto()  # no configuration yet
    IDLE = auto()  # no utterance takes text; earlier ones may still be spoken
    TEXT = auto()  # an utterance takes text
    CLOSING = auto()  # the last utterances are being spoken, then the connection closes
    CLOSED = auto()


# What a message does. A pair that is not here is an error that changes nothing, but ends a session
# which is still NEW. Of the handlers, configure leads to IDLE, text to TEXT, done and cancel to
# IDLE, close to CLOSING, or to CLOSED if nothing is left to be spoken.
_HANDLERS: dict[State, dict[str, str]] = {
    State.NEW: {
        "session.config": "_configure",
        "session.close": "_close",
    },
    State.IDLE: {
        "session.config": "_configure",
        "session.update": "_update",
        "session.close": "_close",
        "input.text": "_text",
        "input.done": "_done",
        "input.flush": "_flush",
        "input.cancel": "_cancel",
    },
    State.TEXT: {
        "session.update": "_update",
        "session.close": "_close",
        "input.text": "_text",
        "input.done": "_done",
        "input.flush": "_flush",
        "input.cancel": "_cancel",
    },
    State.CLOSING: {
        "session.close": "_close",
        "input.cancel": "_cancel",
    },
    State.CLOSED: {},
}

# RFC 6455, section 7.4.1.
NORMAL, UNSUPPORTED_DATA, POLICY_VIOLATION, INTERNAL_ERROR = 1000, 1003, 1008, 1011
# Each takes a ticket of the engine; more than a few ahead of the one that is heard help nobody.
_MAX_LIVE_UTTERANCES = 4


class Resolver(Protocol):
    """What the server has. Both raise ``VoxloomError`` for what it has not."""

    def plan(self, config: SessionConfig) -> SessionPlan: ...

    def changes(self, update: SessionUpdate) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """In characters: a ``session.config``, any other message, the text of an utterance."""

    max_config_chars: int = 1024 * 1024
    max_message_chars: int = 128 * 1024
    max_utterance_chars: int = 1_000_000


class SpeechSession:
    """One client's session."""

    def __init__(self, resolver: Resolver, limits: SessionLimits | None = None) -> None:
        self._resolver = resolver
        self._limits = limits or SessionLimits()
        self._plan: SessionPlan | None = None
        self._live: deque[Utterance] = deque()
        self._plans: dict[int, SessionPlan] = {}
        self._last: Utterance | None = None
        self._num_utterances = 0
        self.state = State.NEW

    def plan_of(self, utterance_index: int) -> SessionPlan:
        """How an utterance was configured when it began. Raises ``KeyError`` if it is over."""
        return self._plans[utterance_index]

    def is_wanted(self, utterance_index: int) -> bool:
        """Whether the utterance's audio is still to be sent."""
        return self._find(utterance_index) is not None

    @property
    def owes_audio(self) -> bool:
        """Whether the client has said all and is waiting to hear it."""
        return any(u.has_all_text and not u.is_failed for u in self._live)

    # --- from the client -------------------------------------------------------------------------

    def receive_text(self, text: str, now: float) -> list[Effect]:
        """A text message."""
        if self.state is State.CLOSED:
            return []
        try:
            kind, data = self._parse(text)
        except VoxloomError as error:
            return self._refuse(error, POLICY_VIOLATION)
        handler: Callable[[dict[str, Any], float], list[Effect]]
        handler = getattr(self, _HANDLERS[self.state][kind])
        try:
            return handler(data, now)
        except VoxloomError as error:
            return [SendEvent(events.error_event(error))]

    def receive_binary(self) -> list[Effect]:
        """A binary message: nothing in this protocol is one."""
        error = InvalidRequestError("messages must be JSON text, got a binary one", param="type")
        return [] if self.state is State.CLOSED else self._refuse(error, UNSUPPORTED_DATA)

    def time_out(self) -> list[Effect]:
        """No message came within the time that the state allows."""
        if self.state is State.CLOSED:
            return []
        waited_for = "Idle timeout: no message received"
        if self.state is State.NEW:
            waited_for = "Timeout waiting for session.config"
        error = InvalidRequestError(waited_for, code="timeout")
        return [SendEvent(events.error_event(error)), *self.end(POLICY_VIOLATION, "timeout")]

    def end(self, code: int, reason: str) -> list[Effect]:
        """Let go of everything, and close."""
        if self.state is State.CLOSED:
            return []
        self.state = State.CLOSED
        aborts = [Abort(utterance.index) for utterance in self._live]
        self._live.clear()
        self._plans.clear()
        return [*aborts, Close(code, reason)]

    # --- from the engine -------------------------------------------------------------------------

    def take_audio(self, utterance_index: int, piece: AudioPiece, now: float) -> list[Effect]:
        """A piece of an utterance's audio; of one that is over it is dropped."""
        utterance = self._find(utterance_index)
        if utterance is None:
            return []
        if piece.only_warns:
            utterance.warn(piece.warnings)
            return []
        plan = self._plans[utterance_index]
        if plan.granularity == "none":
            piece = replace(piece, span=(0, utterance.text.num_chars))
        return audio_effects(utterance, piece, plan, now)

    def take_end(self, utterance_index: int) -> list[Effect]:
        """All of an utterance's audio has come."""
        utterance = self._find(utterance_index)
        if utterance is None:
            return []
        effects: list[Effect] = []
        if utterance.unit is not None:
            effects += end_unit(utterance, utterance.unit, self._plans[utterance_index])
        if utterance.text.num_chars and not utterance.num_units:
            utterance.warn(["nothing in the text can be spoken"])
        return [*effects, *self._finish(utterance)]

    def take_failure(self, utterance_index: int, error: VoxloomError) -> list[Effect]:
        """The engine gave an utterance up. Text that still comes for it is thrown away."""
        utterance = self._find(utterance_index)
        if utterance is None:
            return []
        effects: list[Effect] = [
            Abort(utterance.index),
            SendEvent(events.error_event(error, utterance)),
        ]
        if utterance.unit is not None:
            plan = self._plans[utterance_index]
            effects += end_unit(utterance, utterance.unit, plan, error=True)
        utterance.is_failed = True
        if utterance.has_all_text:
            effects += self._finish(utterance, error=True)
        return effects

    # --- handlers --------------------------------------------------------------------------------

    def _configure(self, data: dict[str, Any], now: float) -> list[Effect]:
        if self._live:
            raise InvalidRequestError(
                "session.config must wait until session.done; session.update changes voice and "
                "speed at once",
                param="type",
                code="out_of_order",
            )
        self._plan = self._resolver.plan(validate(data, SessionConfig))
        self.state = State.IDLE
        return []

    def _update(self, data: dict[str, Any], now: float) -> list[Effect]:
        assert self._plan is not None
        changes = self._resolver.changes(validate(data, SessionUpdate))
        self._plan = replace(self._plan, prompt=self._plan.prompt | changes)
        shown = {key: self._plan.prompt[key] for key in ("voice", "speed")}
        effects: list[Effect] = [SendEvent({"type": "session.updated", **shown})]
        utterance = self._open_utterance()
        if utterance is not None and changes and not utterance.is_failed:
            utterance.clauses.settle()
            effects.insert(0, ChangeVoice(utterance.index, changes))
        return effects

    def _text(self, data: dict[str, Any], now: float) -> list[Effect]:
        text = validate(data, InputText).text
        if not text:
            return []
        utterance = self._open_utterance()
        if utterance is not None and utterance.is_failed:
            return []
        num_chars = len(text) + (utterance.text.num_chars if utterance is not None else 0)
        if num_chars > self._limits.max_utterance_chars:
            raise InvalidRequestError(
                f"text makes an utterance of {num_chars} characters; this server takes at most "
                f"{self._limits.max_utterance_chars}",
                param="text",
                code="string_above_max_length",
            )
        effects: list[Effect] = []
        if utterance is None:
            utterance = self._begin()
            effects.append(StartUtterance(utterance.index))
        return effects + self._append(utterance, text, now)

    def _done(self, data: dict[str, Any], now: float) -> list[Effect]:
        utterance = self._open_utterance()
        if utterance is None and not self._live:
            return self._finish(self._begin())
        effects: list[Effect] = []
        if utterance is None:  # its session.done must wait for those of the utterances before it
            utterance = self._begin()
            effects.append(StartUtterance(utterance.index))
        self.state = State.IDLE
        utterance.has_all_text = True
        if utterance.is_failed:
            return self._finish(utterance, error=True)
        return [*effects, EndText(utterance.index)]

    def _flush(self, data: dict[str, Any], now: float) -> list[Effect]:
        utterance = self._open_utterance()
        if utterance is None or utterance.is_failed:
            return []
        utterance.clauses.settle()
        return [FlushText(utterance.index)]

    def _cancel(self, data: dict[str, Any], now: float) -> list[Effect]:
        message = validate(data, InputCancel)
        about = self._about(message.utterance_index)
        source_rate = self._plan.source_rate if self._plan is not None else 1
        answer = events.input_cancelled(about, message.played_ms, source_rate)
        live = list(self._live)
        effects: list[Effect] = [Abort(utterance.index) for utterance in live]
        for utterance in live:
            if utterance.unit is not None:
                plan = self._plans[utterance.index]
                effects += end_unit(utterance, utterance.unit, plan, cancelled=True)
        if self.state is State.TEXT:
            self.state = State.IDLE
        effects.append(SendEvent(answer))
        for utterance in live:
            effects += self._finish(utterance, cancelled=True)
        self._last = about
        return effects

    def _close(self, data: dict[str, Any], now: float) -> list[Effect]:
        effects: list[Effect] = []
        utterance = self._open_utterance()
        if utterance is not None:
            effects.append(Abort(utterance.index))
            self._forget(utterance)
        self.state = State.CLOSING
        return effects if self._live else self.end(NORMAL, "")

    # --- small things ----------------------------------------------------------------------------

    def _parse(self, text: str) -> tuple[str, dict[str, Any]]:
        """The type and the fields of a message that is possible now."""
        if self.state is State.NEW:
            kind, data = parse_message(text, self._limits.max_config_chars, "session.config")
        else:
            kind, data = parse_message(text, self._limits.max_message_chars, "message")
        if kind not in _HANDLERS[self.state]:
            raise self._out_of_order(kind)
        return kind, data

    def _out_of_order(self, kind: str) -> VoxloomError:
        reasons = {
            State.NEW: f"Expected session.config, got: {kind}",
            State.TEXT: f"{kind} must wait until input.done or input.cancel has ended the text",
        }
        reason = reasons.get(self.state, f"{kind} cannot follow session.close")
        return InvalidRequestError(reason, param="type", code="out_of_order")

    def _refuse(self, error: VoxloomError, fatal_code: int) -> list[Effect]:
        """An error that changes nothing, unless the session has not even begun."""
        effects: list[Effect] = [SendEvent(events.error_event(error))]
        if self.state is State.NEW:
            effects += self.end(fatal_code, "no session.config")
        return effects

    def _begin(self) -> Utterance:
        if len(self._live) >= _MAX_LIVE_UTTERANCES:
            raise OverloadedError(
                f"{len(self._live)} utterances of this session are waiting to be spoken, the most "
                "that may; wait for a session.done",
                retry_after_s=1.0,
            )
        assert self._plan is not None
        utterance = Utterance(self._num_utterances)
        self._num_utterances += 1
        self._live.append(utterance)
        self._plans[utterance.index] = self._plan
        self.state = State.TEXT
        return utterance

    def _append(self, utterance: Utterance, text: str, now: float) -> list[Effect]:
        """Pass text on; behind a clause, have it spoken if the listener would run dry."""
        plan = self._plans[utterance.index]
        is_cut = plan.granularity == "clause" and utterance.would_run_dry(now, plan.source_rate)
        return append_text(utterance, text, is_cut=is_cut)

    def _finish(self, utterance: Utterance, **ending: bool) -> list[Effect]:
        self._forget(utterance)
        effects: list[Effect] = [SendEvent(events.session_done(utterance, **ending))]
        if self.state is State.CLOSING and not self._live:
            effects += self.end(NORMAL, "")
        return effects

    def _forget(self, utterance: Utterance) -> None:
        self._live.remove(utterance)
        del self._plans[utterance.index]
        self._last = utterance
        if self.state is State.TEXT and not utterance.has_all_text:
            self.state = State.IDLE

    def _open_utterance(self) -> Utterance | None:
        """The utterance that takes text: the last of the live ones, if any."""
        if self._live and not self._live[-1].has_all_text:
            return self._live[-1]
        return None

    def _find(self, utterance_index: int) -> Utterance | None:
        for utterance in self._live:
            if utterance.index == utterance_index and not utterance.is_failed:
                return utterance
        return None

    def _about(self, utterance_index: int | None) -> Utterance:
        """The utterance that a cancel is about."""
        known = [*self._live, *([self._last] if self._last is not None else [])]
        if utterance_index is None:
            return known[0] if known else Utterance(self._num_utterances)
        for utterance in known:
            if utterance.index == utterance_index:
                return utterance
        raise InvalidRequestError(
            f"utterance_index must be {InputCancel.must_be['utterance_index']}, "
            f"got {utterance_index}",
            param="utterance_index",
        )
