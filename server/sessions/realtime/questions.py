"""What an answer is about: checked when it is asked for, and put together when it begins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.errors import InvalidRequestError
from server.sessions.realtime.config import WireFormat
from server.sessions.realtime.conversation import chat_messages, chat_tools
from server.sessions.realtime.effects import ResponseOrder
from server.sessions.realtime.items import Item
from server.sessions.realtime.truncation import Truncation


def check_calls(context: Sequence[Item], given: Sequence[dict[str, Any]]) -> None:
    """Raise for a result whose call is not among the items: no model would be told of it.

    ``given`` is ``response.input``, of which the items were made.
    """
    called = {item.call["call_id"] for item in context if item.type == "function_call"}
    for index, item in enumerate(context):
        if item.type == "function_call_output" and item.call["call_id"] not in called:
            name = "id" if given[index].get("type") == "item_reference" else "call_id"
            raise InvalidRequestError(
                f"Tool call ID '{item.call['call_id'][:64]}' not found in response.input.",
                param=f"response.input[{index}].{name}",
                code="invalid_tool_call_id",
            )


def no_question(param: str | None) -> InvalidRequestError:
    """The error of an answer to nothing: no instructions, and no item that says anything."""
    return InvalidRequestError(
        "There is nothing to be answered: no instructions, and no item with words, sound or the "
        "result of a call.",
        param=param,
        code="empty_input",
    )


def order_of(
    settings: dict[str, Any],
    context: Sequence[Item],
    heard: Sequence[Item],
    voice: str | None,
    truncation: Truncation | None,
) -> ResponseOrder:
    """``heard`` are the items that are given as sound; ``voice`` is an id, None for text."""
    limit = settings["max_output_tokens"]
    choice = settings["tool_choice"]
    if isinstance(choice, dict):
        choice = {"type": "function", "function": {"name": choice["name"]}}
    return ResponseOrder(
        messages=chat_messages(settings["instructions"], context, heard),
        clips=[item.clip for item in heard if item.clip is not None],
        tools=chat_tools(settings["tools"]),
        tool_choice=choice,
        parallel_tool_calls=settings["parallel_tool_calls"],
        max_tokens=None if limit == "inf" else limit,
        truncation=truncation,
        voice=voice,
        speed=settings["speed"],
        audio_format=WireFormat(settings["audio"]["output"]["format"]["type"]).type,
    )
