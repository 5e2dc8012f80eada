"""The answering half of a realtime session: from ``response.create`` to ``response.done``.

    state      leads to   when
    WAITING    MAKING     the words of every turn that it answers are known
    WAITING    (gone)     it is cancelled
    MAKING     (gone)     it has ended, failed or been cancelled

One answer at a time belongs to the conversation; a few others may be made beside it, which leave no
trace there (``conversation: none``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from engine.errors import InvalidRequestError, OverloadedError, RequestError, VoxloomError
from server.sessions.effects import SendEvent
from server.sessions.realtime.checks import (
    Check,
    anything,
    bad_value,
    fields,
    is_bool,
    is_object,
    list_of,
    one_of,
    optional,
    text,
)
from server.sessions.realtime.config import (
    RESPONSE_FIELDS,
    RealtimeConfig,
    check_output_format,
)
from server.sessions.realtime.conversation import (
    Conversation,
    audible,
    chat_messages,
    turn_lengths,
)
from server.sessions.realtime.effects import CancelResponse, Effect, StartResponse
from server.sessions.realtime.hearing import Hearing
from server.sessions.realtime.items import Item, parse_item
from server.sessions.realtime.questions import check_calls, no_question, order_of
from server.sessions.realtime.response import Event, Response, Usage
from server.sessions.realtime.spoken_text import Mark

_MAX_ASIDES = 4
_MAX_INPUT_ITEMS = 1000
_MAX_METADATA = 16


class State(Enum):
    WAITING = auto()
    MAKING = auto()


@dataclass(slots=True)
class _Reply:
    response: Response
    settings: dict[str, Any]
    context: list[Item] | None
    state: State = State.WAITING


def _check_metadata(value: Any, path: str) -> dict[str, str]:
    data = is_object(value, path)
    if len(data) > _MAX_METADATA:
        raise bad_value(path, f"at most {_MAX_METADATA} pairs", value)
    for key, item in data.items():
        text(64)(key, path)
        text(512)(item, f"{path}.{key}")
    return data


_CREATE: dict[str, Check] = RESPONSE_FIELDS | {
    "conversation": one_of("auto", "none"),
    "metadata": optional(_check_metadata),
    "input": optional(list_of(is_object, _MAX_INPUT_ITEMS)),
    "parallel_tool_calls": optional(is_bool),
    "prompt": anything,
    "reasoning": anything,
}


class Replies:
    """``hearing`` finds out what inline items say."""

    def __init__(
        self,
        config: RealtimeConfig,
        conversation: Conversation,
        hearing: Hearing,
        conversation_id: str,
        new_id: Callable[[str], str],
    ) -> None:
        self._config = config
        self._conversation = conversation
        self._conversation_id = conversation_id
        self._new_id = new_id
        self._hearing = hearing
        self._replies: dict[str, _Reply] = {}
        self._current: str | None = None
        self._answered: frozenset[str] = frozenset()

    @property
    def answered(self) -> frozenset[str]:
        """The items that the conversation's answer is about; between answers, the last one's."""
        return self._answered

    @property
    def active(self) -> Response | None:
        """The answer that the conversation is getting."""
        return None if self._current is None else self._replies[self._current].response

    # --- from the client -------------------------------------------------------------------------

    def create(self, data: dict[str, Any], now: float) -> list[Effect]:
        """``response.create``. Raises ``VoxloomError`` and changes nothing."""
        given = {
            key: value
            for key, value in is_object(_or_empty(data.get("response")), "response").items()
            if value is not None or key == "metadata"
        }
        asked = fields(_CREATE)(given, "response")
        is_aside = asked.get("conversation") == "none"
        self._check_room(is_aside=is_aside)
        inline: list[Item] = []
        context = self._context(asked.get("input"), inline)
        settings = self._settings(asked, given.get("audio"))
        unwritten = self._hearing.admit(inline)
        self._check_question(settings, context)
        return self._open(settings, context, unwritten, asked.get("metadata"), is_aside, now)

    def answer_turn(self, now: float) -> list[Effect]:
        """The conversation is to be answered although nobody asked; not while it is already."""
        if self._current is not None:
            return []
        return self._open(self._settings({}, None), None, [], None, False, now)

    def cancel(self, response_id: str | None, now: float) -> list[Effect]:
        """``response.cancel``: the named answer, or the conversation's."""
        chosen = self._current if response_id is None else response_id
        if chosen is None or chosen not in self._replies:
            raise InvalidRequestError(
                "Cancellation failed: no active response found",
                param="response_id" if response_id is not None else None,
                code="response_cancel_not_active",
            )
        return self._stop(chosen, "client_cancelled")

    def interrupt(self) -> list[Effect]:
        """The user speaks: the conversation's answer ends."""
        return [] if self._current is None else self._stop(self._current, "turn_detected")

    # --- from the world --------------------------------------------------------------------------

    def on_words(self) -> list[Effect]:
        """The words of an item are known: answers that waited for them can begin."""
        effects: list[Effect] = []
        for reply in list(self._replies.values()):
            if reply.state is State.WAITING:
                effects += self._start_if_ready(reply)
        return effects

    def take_text(self, response_id: str, delta: str) -> list[Effect]:
        return self._grow(response_id, lambda response: response.add_text(delta))

    def take_audio(
        self, response_id: str, data: bytes, duration_ms: float, marks: list[Mark], now: float
    ) -> list[Effect]:
        """Sound in the answer's format, and where words end in it."""
        self._config.has_spoken = True
        return self._grow(
            response_id, lambda response: response.add_audio(data, duration_ms, marks, now)
        )

    def take_call(
        self, response_id: str, index: int, call_id: str, name: str, arguments: str
    ) -> list[Effect]:
        return self._grow(
            response_id, lambda response: response.add_call(index, call_id, name, arguments)
        )

    def take_end(self, response_id: str, finish_reason: str, usage: Usage) -> list[Effect]:
        """All of an answer has come. ``finish_reason`` is the chat API's."""
        reply = self._forget(response_id)
        if reply is None:
            return []
        reasons = {"length": "max_output_tokens", "content_filter": "content_filter"}
        if finish_reason in reasons:
            events = reply.response.end("incomplete", reasons[finish_reason], usage=usage)
        else:
            events = reply.response.end("completed", usage=usage)
        return _send_all(events)

    def take_failure(self, response_id: str, error: VoxloomError) -> list[Effect]:
        """The answer cannot be made. The session goes on."""
        reply = self._forget(response_id)
        if reply is None:
            return []
        kind = "invalid_request_error" if isinstance(error, RequestError) else "server_error"
        details = {"type": kind, "code": error.code, "message": error.message}
        return _send_all(reply.response.end("failed", error=details))

    def end(self) -> list[Effect]:
        """Let go of everything."""
        making = [i for i, reply in self._replies.items() if reply.state is State.MAKING]
        self._replies.clear()
        self._current = None
        return [CancelResponse(response_id) for response_id in making]

    # --- small things ----------------------------------------------------------------------------

    def _check_room(self, *, is_aside: bool) -> None:
        if not is_aside and self._current is not None:
            raise InvalidRequestError(
                f"Conversation already has an active response in progress: {self._current}. Wait "
                "until the response is finished before creating a new one.",
                code="conversation_already_has_active_response",
            )
        num_asides = len(self._replies) - (self._current is not None)
        if is_aside and num_asides >= _MAX_ASIDES:
            raise OverloadedError(
                f"{num_asides} responses outside the conversation are being made, the most that "
                "may; wait for a response.done.",
                retry_after_s=1.0,
            )

    def _context(self, given: list[Any] | None, inline: list[Item]) -> list[Item] | None:
        """The items that an answer is about; None: the conversation, as it is when it begins."""
        if given is None:
            return None
        context: list[Item] = []
        for index, value in enumerate(given):
            path = f"response.input[{index}]"
            if value.get("type") == "item_reference":
                item_id = text(64)(value.get("id"), f"{path}.id")
                context.append(self._conversation.get(item_id, "reference", f"{path}.id"))
                continue
            fmt = self._config.input_format
            item = parse_item(value, path, lambda: self._new_id("item"), fmt)
            inline.append(item)
            context.append(item)
        check_calls(context, given)
        return context

    def _check_question(self, settings: dict[str, Any], context: list[Item] | None) -> None:
        """Raise if there is nothing to be answered, and nothing to come whose words are awaited.

        Instructions are enough.
        """
        items = list(self._conversation) if context is None else context
        if any(item.awaits_transcript for item in items):
            return
        if not chat_messages(settings["instructions"], items, self._heard(items)):
            raise no_question(None if context is None else "response.input")

    def _heard(self, context: list[Item]) -> list[Item]:
        """The items of which a model that hears is given the sound."""
        return audible(context) if self._hearing.model_hears else []

    def _settings(self, asked: dict[str, Any], audio: Any) -> dict[str, Any]:
        """How an answer is made, as the client is shown it: its own wishes, else the session's."""
        given = is_object(_or_empty(audio), "response.audio")
        output = is_object(_or_empty(given.get("output")), "response.audio.output")
        shown = {key: self._config.output[key] for key in ("format", "voice")}
        if output.get("voice") is not None:
            shown["voice"] = self._config.check_own_voice(
                output["voice"], "response.audio.output.voice"
            )
        if output.get("format") is not None:
            shown["format"] = check_output_format(output["format"], "response.audio.output.format")
        speed = self._config.output["speed"]
        if output.get("speed") is not None:
            speed = self._config.check_own_speed(output["speed"], "response.audio.output.speed")
        keys = (*RESPONSE_FIELDS, "parallel_tool_calls")
        own = {key: asked.get(key, self._config.get(key)) for key in keys}
        return own | {"audio": {"output": shown}, "speed": speed}

    def _open(
        self,
        settings: dict[str, Any],
        context: list[Item] | None,
        unwritten: list[Item],
        metadata: dict[str, str] | None,
        is_aside: bool,
        now: float,
    ) -> list[Effect]:
        shown = {key: settings[key] for key in ("audio", "max_output_tokens", "output_modalities")}
        response = Response(
            id=self._new_id("resp"),
            conversation_id=None if is_aside else self._conversation_id,
            settings=shown,
            new_item_id=lambda: self._new_id("item"),
            add_item=self._conversation.insert,
            name_call=self._name_call,
            metadata=metadata,
        )
        reply = _Reply(response, settings, context)
        self._replies[response.id] = reply
        if not is_aside:
            self._current = response.id
        effects = _send_all(response.begin())
        for item in unwritten:
            effects += self._hearing.recognise(item)
        return effects + self._start_if_ready(reply)

    def _start_if_ready(self, reply: _Reply) -> list[Effect]:
        context = list(self._conversation) if reply.context is None else reply.context
        if any(item.awaits_transcript for item in context):
            return []
        reply.state = State.MAKING
        response = reply.response
        if response.id == self._current:
            self._answered = frozenset(item.id for item in context)
        heard = self._heard(context)
        counted = heard if self._hearing.model_hears else context
        response.turns_ms = turn_lengths(context, heard, counted)
        voice = reply.settings["audio"]["output"]["voice"]
        voice_id = self._config.voice_id(voice) if response.speaks else None
        order = order_of(reply.settings, context, heard, voice_id, self._config.truncation)
        if not order.messages:
            return self.take_failure(response.id, no_question(None))
        return [StartResponse(response.id, order)]

    def _name_call(self, given: str) -> str:
        """Models that write calls as text give them no ids; some count from 0 in each answer."""
        is_own = bool(given) and not self._conversation.has_call(given)
        return given if is_own else self._new_id("call")

    def _grow(self, response_id: str, change: Callable[[Response], list[Event]]) -> list[Effect]:
        reply = self._replies.get(response_id)
        return [] if reply is None else _send_all(change(reply.response))

    def _stop(self, response_id: str, reason: str) -> list[Effect]:
        reply = self._forget(response_id)
        assert reply is not None
        effects: list[Effect] = []
        if reply.state is State.MAKING:
            effects.append(CancelResponse(response_id))
        return effects + _send_all(reply.response.end("cancelled", reason))

    def _forget(self, response_id: str) -> _Reply | None:
        if response_id == self._current:
            self._current = None
        return self._replies.pop(response_id, None)


def _or_empty(value: Any) -> Any:
    """Null is as good as nothing; a list or a false is not."""
    return {} if value is None else value


def _send_all(events: list[Event]) -> list[Effect]:
    return [SendEvent(event) for event in events]
