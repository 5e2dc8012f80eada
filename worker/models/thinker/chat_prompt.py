"""What a chat template is given: messages and tools in the form that templates are written for.

Templates are written against the conventions of Hugging Face's ``transformers`` ("Tool use" in its
documentation): content is text, and a call's ``arguments`` are an object where OpenAI's API has
them as JSON in a string.
"""

from __future__ import annotations

import json
from typing import Any

from engine.errors import InvalidRequestError
from worker.models.thinker.spoken import REASONING_TAGS


def template_messages(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages for a template. Raises ``InvalidRequestError`` that names the field.

    A tool's result has its ``tool_call_id``, and the ``name`` of the function that was called.
    """
    names = dict[str, str]()
    return [
        _message(message, f"messages[{index}]", names) for index, message in enumerate(messages)
    ]


def open_reasoning(prompt: str) -> str:
    """The tag of reasoning that a prompt ends inside of; "" if there is none."""
    end = prompt.rstrip()
    return next((tag for tag in REASONING_TAGS if end.endswith(tag)), "")


def _message(message: dict[str, Any], path: str, names: dict[str, str]) -> dict[str, Any]:
    read = message | {"content": _text(message.get("content"))}
    calls = message.get("tool_calls")
    if calls:
        if not isinstance(calls, list):
            raise _refuse(f"{path}.tool_calls", "a list of calls")
        read["tool_calls"] = [
            _call(call, f"{path}.tool_calls[{index}]", names) for index, call in enumerate(calls)
        ]
    if message.get("role") == "tool" and "name" not in message:
        name = names.get(str(message.get("tool_call_id")))
        read |= {} if name is None else {"name": name}
    return read


def _call(call: Any, path: str, names: dict[str, str]) -> dict[str, Any]:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise _refuse(f"{path}.function", "an object with the name and the arguments of a call")
    names[str(call.get("id"))] = function["name"]
    arguments = _arguments(function.get("arguments"), f"{path}.function.arguments")
    return {**call, "function": function | {"arguments": arguments}}


def _arguments(value: Any, path: str) -> dict[str, Any]:
    read = value or {}
    if isinstance(value, str) and value.strip():
        try:
            read = json.loads(value)
        except (ValueError, RecursionError):
            read = None
    if not isinstance(read, dict):
        raise _refuse(path, "a JSON object, in a string")
    return dict(read)


def _text(content: Any) -> str:
    """Most templates know no parts."""
    if isinstance(content, list):
        return "\n".join(part.get("text", "") for part in content if part.get("type") == "text")
    return content or ""


def _refuse(path: str, allowed: str) -> InvalidRequestError:
    return InvalidRequestError(f"{path} must be {allowed}", param=path)
