"""The items of a session in order, bounded, and what a model is given of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from engine.errors import InvalidRequestError
from server.sessions.realtime.items import Item

# More turns than an hour of talk has; their sound is what takes room.
MAX_ITEMS = 2000
MAX_BYTES = 128 * 1024 * 1024
# What models that hear were trained on at once: five minutes in all.
MAX_HEARD_MS = 300_000


class Conversation:
    """Raises ``InvalidRequestError`` with OpenAI's codes. A failed call changes nothing."""

    def __init__(self) -> None:
        self._items: list[Item] = []

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    @property
    def last_id(self) -> str | None:
        return self._items[-1].id if self._items else None

    def find(self, item_id: str) -> Item | None:
        return next((item for item in reversed(self._items) if item.id == item_id), None)

    def get(self, item_id: str, action: str, param: str = "item_id") -> Item:
        """The item that an event is about; ``action`` names the event in the error's code."""
        item = self.find(item_id)
        if item is None:
            raise InvalidRequestError(
                f"Error with item: the item with id '{item_id[:64]}' does not exist.",
                param=param,
                code=f"item_{action}_invalid_item_id",
            )
        return item

    def insert(self, item: Item, after: str | None = None) -> str | None:
        """Put an item in, at the end or behind ``after`` ("root": first); the id before it."""
        if self.find(item.id) is not None:
            raise InvalidRequestError(
                f"Error adding item: an item with id '{item.id}' already exists.",
                param="item.id",
                code="item_create_duplicate_item_id",
            )
        if item.type == "function_call_output" and not self.has_call(item.call["call_id"]):
            raise InvalidRequestError(
                f"Tool call ID '{item.call['call_id'][:64]}' not found in conversation.",
                param="item.call_id",
                code="invalid_tool_call_id",
            )
        index = self._place(after)
        before = self._items[index - 1].id if index else None
        self._items.insert(index, item)
        self._bound()
        return before

    def has_call(self, call_id: str) -> bool:
        return any(
            item.type == "function_call" and item.call["call_id"] == call_id for item in self._items
        )

    def delete(self, item_id: str) -> Item:
        item = self.get(item_id, "delete")
        self._items.remove(item)
        return item

    def _place(self, after: str | None) -> int:
        if after is None:
            return len(self._items)
        if after == "root":
            return 0
        for index, item in enumerate(self._items):
            if item.id == after:
                return index + 1
        raise InvalidRequestError(
            f"Error adding item: previous_item_id '{after[:64]}' does not exist.",
            param="previous_item_id",
            code="item_create_invalid_previous_item_id",
        )

    def _bound(self) -> None:
        """Forget the sound of the oldest turns, then the oldest turns themselves."""
        num_bytes = sum(item.num_bytes for item in self._items)
        for item in self._items:
            if num_bytes <= MAX_BYTES:
                break
            if item.clip is not None and not item.awaits_transcript:
                num_bytes -= len(item.clip.pcm)
                item.clip = None
        while len(self._items) > MAX_ITEMS or (num_bytes > MAX_BYTES and len(self._items) > 1):
            num_bytes -= self._items.pop(0).num_bytes


def audible(items: Sequence[Item]) -> list[Item]:
    """The items whose sound a model that hears is given: the last ones, five minutes of them.

    The very last is among them whatever its length: a turn of which a part is missing would be
    answered wrongly, so one that is too long is the model's to refuse.
    """
    chosen: list[Item] = []
    left_ms = MAX_HEARD_MS
    for item in reversed(items):
        if item.role != "user" or item.clip is None or not item.clip.pcm:
            continue
        left_ms -= item.clip.duration_ms
        if left_ms < 0 and chosen:
            break
        chosen.append(item)
    return chosen[::-1]


def chat_messages(
    instructions: str, items: Iterable[Item], heard: Iterable[Item] = ()
) -> list[dict[str, Any]]:
    """What a chat model is given: OpenAI's chat messages. Items without words are left out.

    In the ``heard`` ones a part of the type ``audio`` stands where their sound is.
    Models refuse a call whose result does not follow at once, and arguments that were cut off: a
    call is told with its result, or not at all.
    """
    context = list(items)
    outputs = {
        item.call["call_id"]: item.call["output"]
        for item in context
        if item.type == "function_call_output"
    }
    sounding = {item.id for item in heard}
    messages: list[dict[str, Any]] = []
    if instructions:
        messages.append({"role": "system", "content": instructions})
    for item in context:
        if item.type == "function_call":
            if item.status == "completed" and item.call["call_id"] in outputs:
                _add_call(messages, item, outputs.pop(item.call["call_id"]))
        elif item.type == "function_call_output":
            continue
        elif item.is_silent:
            messages.append({"role": "system", "content": "The user has said nothing for a while."})
        elif item.id in sounding:
            messages.append({"role": item.role, "content": _sounding_content(item)})
        elif content := _content(item):
            messages.append({"role": item.role, "content": content})
    return messages


def turn_lengths(
    items: Iterable[Item], heard: Iterable[Item], counted: Iterable[Item]
) -> list[float]:
    """For each of the user's messages in ``chat_messages`` how many ms of ``counted`` sound it has.

    A turn without words, of which there is no message, counts with the one behind it, or last.
    """
    clips = {item.id: item.clip.duration_ms for item in counted if item.clip is not None}
    sounding = {item.id for item in heard}
    lengths: list[float] = []
    untold_ms = 0.0
    for item in items:
        if item.role != "user":
            continue
        untold_ms += clips.get(item.id, 0.0)
        if not item.is_silent and (item.id in sounding or _content(item)):
            lengths.append(untold_ms)
            untold_ms = 0.0
    return [*lengths, untold_ms]


def chat_tools(tools: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """A session's tools in the form of the chat API."""
    return [
        {"type": "function", "function": {key: tool[key] for key in tool if key != "type"}}
        for tool in tools
    ]


def _add_call(messages: list[dict[str, Any]], item: Item, output: str) -> None:
    """A call and its result. Calls of one answer belong to one message, before their results."""
    function = {"name": item.call["name"], "arguments": item.call["arguments"]}
    call = {"id": item.call["call_id"], "type": "function", "function": function}
    result = {"role": "tool", "tool_call_id": item.call["call_id"], "content": output}
    at = len(messages)
    while at and messages[at - 1]["role"] == "tool":
        at -= 1
    if at and messages[at - 1]["role"] == "assistant":
        messages[at - 1].setdefault("tool_calls", []).append(call)
    else:
        messages.insert(at, {"role": "assistant", "content": None, "tool_calls": [call]})
    messages.append(result)


def _sounding_content(item: Item) -> list[dict[str, Any]]:
    """The parts of a user's item in their order, its sound as sound."""
    parts: list[dict[str, Any]] = []
    for part in item.parts:
        if part["type"] == "input_audio":
            parts.append({"type": "audio"})
        elif part["type"] == "input_text":
            parts.append({"type": "text", "text": part["text"]})
        else:
            parts.append({"type": "image_url", "image_url": {"url": part["image_url"]}})
    return parts


def _content(item: Item) -> str | list[dict[str, Any]]:
    images = [part for part in item.parts if part["type"] == "input_image"]
    if not images:
        return item.text
    parts: list[dict[str, Any]] = [
        {"type": "image_url", "image_url": {"url": part["image_url"]}} for part in images
    ]
    return [{"type": "text", "text": item.text}, *parts] if item.text else parts
