"""One answer of a realtime session: its items as they grow, and the events that tell of them.

    part of an answer   begins                 grows                      ends
    the answer          response.created                                  response.done
    an item             output_item.added,                                item.done,
                        item.added                                        output_item.done
    what it says        content_part.added     *_transcript.delta,        *.done,
                                               audio.delta                content_part.done
    a function call     (its item)             arguments.delta            arguments.done

Events are made here without ids; the session numbers them as it sends them. Items of an answer that
belongs to no conversation have no ``conversation.item`` events.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from server.sessions.realtime.items import Item
from server.sessions.realtime.spoken_text import Mark, SpokenText

Event = dict[str, Any]
# Ten tokens a second of input and twenty of output: how OpenAI counts audio.
INPUT_TOKEN_MS, OUTPUT_TOKEN_MS = 100, 50


@dataclass(frozen=True, slots=True)
class Usage:
    """What an answer took: text tokens as the thinker counted them, audio by its length in ms.

    ``num_left_out``: how many of the user's messages, the oldest ones, the model was not told.
    """

    input_text_tokens: int = 0
    cached_tokens: int = 0
    output_text_tokens: int = 0
    num_left_out: int = 0

    def to_json(self, input_audio_ms: float, output_audio_ms: float) -> dict[str, Any]:
        heard = round(input_audio_ms / INPUT_TOKEN_MS)
        said = round(output_audio_ms / OUTPUT_TOKEN_MS)
        num_input, num_output = self.input_text_tokens + heard, self.output_text_tokens + said
        return {
            "total_tokens": num_input + num_output,
            "input_tokens": num_input,
            "output_tokens": num_output,
            "input_token_details": {
                "text_tokens": self.input_text_tokens,
                "audio_tokens": heard,
                "image_tokens": 0,
                "cached_tokens": self.cached_tokens,
                "cached_tokens_details": {
                    "text_tokens": self.cached_tokens,
                    "audio_tokens": 0,
                    "image_tokens": 0,
                },
            },
            "output_token_details": {"text_tokens": self.output_text_tokens, "audio_tokens": said},
        }


@dataclass(slots=True)
class Response:
    """An answer that is being made. ``settings`` is what the client is shown of how.

    ``turns_ms``: how much sound there is to each of the user's messages that it answers.
    """

    id: str
    conversation_id: str | None
    settings: dict[str, Any]
    new_item_id: Callable[[], str]
    add_item: Callable[[Item], str | None]
    name_call: Callable[[str], str]
    metadata: dict[str, str] | None = None
    is_automatic: bool = False
    turns_ms: list[float] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)
    status: str = "in_progress"
    first_audio_at: float | None = None
    _details: dict[str, Any] | None = None
    _usage: dict[str, Any] | None = None
    _message: Item | None = None
    _calls: dict[int, Item] = field(default_factory=dict)
    _item_before: dict[str, str | None] = field(default_factory=dict)

    @property
    def speaks(self) -> bool:
        return bool(self.settings["output_modalities"] == ["audio"])

    @property
    def audio_ms(self) -> float:
        return sum(item.spoken.audio_ms for item in self.items if item.spoken is not None)

    def to_json(self) -> dict[str, Any]:
        return {
            "object": "realtime.response",
            "id": self.id,
            "status": self.status,
            "status_details": self._details,
            "output": [item.to_json() for item in self.items],
            "conversation_id": self.conversation_id,
            **self.settings,
            "usage": self._usage,
            "metadata": self.metadata,
        }

    def begin(self) -> list[Event]:
        return [{"type": "response.created", "response": self.to_json()}]

    # --- what it says ----------------------------------------------------------------------------

    def add_text(self, delta: str) -> list[Event]:
        """More of what is said; of the transcript, where it is spoken."""
        events, item = self._open_message()
        assert item.spoken is not None
        item.spoken.text += delta
        kind = (
            "response.output_audio_transcript.delta"
            if self.speaks
            else "response.output_text.delta"
        )
        return [*events, {"type": kind, **self._part_place(item), "delta": delta}]

    def add_audio(
        self, data: bytes, duration_ms: float, marks: list[Mark], now: float
    ) -> list[Event]:
        """More of the sound, and where words end in it."""
        events, item = self._open_message()
        assert item.spoken is not None
        if self.first_audio_at is None:
            self.first_audio_at = now
        item.spoken.audio_ms += duration_ms
        item.spoken.marks += marks
        delta = base64.b64encode(data).decode("ascii")
        kind = "response.output_audio.delta"
        return [*events, {"type": kind, **self._part_place(item), "delta": delta}]

    # --- what it calls ---------------------------------------------------------------------------

    def add_call(self, index: int, call_id: str, name: str, arguments: str) -> list[Event]:
        """More of the ``index``-th function call; the first piece names the function."""
        events: list[Event] = []
        item = self._calls.get(index)
        if item is None:
            item = Item(self.new_item_id(), "function_call", status="in_progress")
            item.call = {"call_id": self.name_call(call_id), "name": name, "arguments": ""}
            self._calls[index] = item
            events += self._open_item(item)
        if not arguments:
            return events
        item.call["arguments"] += arguments
        place = self._place(item) | {"call_id": item.call["call_id"]}
        kind = "response.function_call_arguments.delta"
        return [*events, {"type": kind, **place, "delta": arguments}]

    # --- its end ---------------------------------------------------------------------------------

    def end(
        self,
        status: str,
        reason: str | None = None,
        *,
        usage: Usage | None = None,
        error: dict[str, Any] | None = None,
    ) -> list[Event]:
        """Close what is open, then the answer.

        ``status``: completed, cancelled, incomplete or failed.
        """
        is_whole = status == "completed"
        events: list[Event] = []
        for item in self.items:
            item.status = "completed" if is_whole else "incomplete"
            if item.spoken is not None:
                item.spoken.is_whole = status in ("completed", "incomplete")
            if item.type == "message":
                events += self._end_part(item)
            else:
                events += self._end_call(item)
            if self.conversation_id is not None:
                events.append(self._item_event("conversation.item.done", item))
            place = {"response_id": self.id, "output_index": self.items.index(item)}
            done = {"type": "response.output_item.done", **place, "item": item.to_json()}
            events.append(done)
            if status == "cancelled":
                item.keep_sounded()
        self.status = status
        self._details = _details(status, reason, error)
        spent = usage or Usage()
        self._usage = spent.to_json(sum(self.turns_ms[spent.num_left_out :]), self.audio_ms)
        return [
            *events,
            {"type": "response.done", "response": self.to_json()},
            {"type": "rate_limits.updated", "rate_limits": []},
        ]

    # --- small things ----------------------------------------------------------------------------

    def _open_message(self) -> tuple[list[Event], Item]:
        if self._message is not None:
            return [], self._message
        item = Item(self.new_item_id(), "message", "assistant", status="in_progress")
        item.spoken = SpokenText()
        self._message = item
        events = self._open_item(item)
        if self.speaks:
            item.parts, part = [{"type": "output_audio", "transcript": ""}], {"type": "audio"}
            shown = part | {"transcript": ""}
        else:
            item.parts, shown = [{"type": "output_text", "text": ""}], {"type": "text", "text": ""}
        added = {"type": "response.content_part.added", **self._part_place(item), "part": shown}
        return [*events, added], item

    def _open_item(self, item: Item) -> list[Event]:
        self.items.append(item)
        place = {"response_id": self.id, "output_index": len(self.items) - 1}
        events: list[Event] = [
            {"type": "response.output_item.added", **place, "item": item.to_json()}
        ]
        if self.conversation_id is not None:
            self._item_before[item.id] = self.add_item(item)
            events.append(self._item_event("conversation.item.added", item))
        return events

    def _item_event(self, kind: str, item: Item) -> Event:
        """Both events name the item that this one was put behind."""
        before = self._item_before[item.id]
        return {"type": kind, "item": item.to_json(), "previous_item_id": before}

    def _end_part(self, item: Item) -> list[Event]:
        assert item.spoken is not None
        place = self._part_place(item)
        said = item.spoken.text if item.heard is None else item.heard
        done: Event = {"type": "response.content_part.done", **place}
        if not self.speaks:
            item.parts = [{"type": "output_text", "text": said}]
            text = {"type": "response.output_text.done", **place, "text": said}
            return [text, done | {"part": {"type": "text", "text": said}}]
        item.parts = [{"type": "output_audio", "transcript": said}]
        transcript = {"type": "response.output_audio_transcript.done", **place, "transcript": said}
        return [
            {"type": "response.output_audio.done", **place},
            transcript,
            done | {"part": {"type": "audio", "transcript": said}},
        ]

    def _end_call(self, item: Item) -> list[Event]:
        """Clients run a call when its arguments are done: one that was cut short never is."""
        if item.status != "completed":
            return []
        return [{"type": "response.function_call_arguments.done", **self._place(item), **item.call}]

    def _place(self, item: Item) -> dict[str, Any]:
        index = self.items.index(item)
        return {"response_id": self.id, "item_id": item.id, "output_index": index}

    def _part_place(self, item: Item) -> dict[str, Any]:
        return self._place(item) | {"content_index": 0}


def _details(
    status: str, reason: str | None, error: dict[str, Any] | None
) -> dict[str, Any] | None:
    if status == "completed":
        return None
    details: dict[str, Any] = {"type": status}
    if reason is not None:
        details["reason"] = reason
    if error is not None:
        details["error"] = error
    return details
