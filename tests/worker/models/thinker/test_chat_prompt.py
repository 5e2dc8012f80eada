"""What a chat template is given."""

from __future__ import annotations

from typing import Any

import pytest

from engine.errors import InvalidRequestError
from worker.models.thinker.chat_prompt import open_reasoning, template_messages


def call(arguments: Any, call_id: str = "c1", name: str = "add") -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


def asked(*calls: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": list(calls)}


def test_arguments_are_objects_and_results_name_their_function() -> None:
    history = [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        asked(call('{"a": 2}'), call("", "c2", "wait")),
        {"role": "tool", "tool_call_id": "c2", "content": "done"},
        {"role": "tool", "tool_call_id": "c1", "content": "4"},
        {"role": "tool", "tool_call_id": "c9", "content": "?"},
    ]
    user, assistant, *results = template_messages(history)
    assert user["content"] == "a\nb"
    assert assistant["content"] == ""
    arguments = [each["function"]["arguments"] for each in assistant["tool_calls"]]
    assert arguments == [{"a": 2}, {}]
    assert [each["id"] for each in assistant["tool_calls"]] == ["c1", "c2"]
    assert [(each["tool_call_id"], each.get("name")) for each in results] == [
        ("c2", "wait"),
        ("c1", "add"),
        ("c9", None),
    ]
    # The request's own messages are as they were: they are kept for a replay.
    assert history[1]["tool_calls"][0]["function"]["arguments"] == '{"a": 2}'


@pytest.mark.parametrize("arguments", ['{"a": ', "[1]", "3", [1], "[" * 100_000])
def test_arguments_that_are_no_object_are_refused_by_name(arguments: Any) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        template_messages([asked(call("{}"), call(arguments, "c2"))])
    assert caught.value.param == "messages[0].tool_calls[1].function.arguments"


@pytest.mark.parametrize("wrong", [None, "call", {"function": {}}, {"function": {"name": 3}}])
def test_a_call_without_a_function_is_refused_by_name(wrong: Any) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        template_messages([asked(wrong)])
    assert caught.value.param == "messages[0].tool_calls[0].function"


@pytest.mark.parametrize(
    ("prompt", "tag"),
    [
        ("user: hi\nassistant: ", ""),
        ("assistant\n<think>\n", "<think>"),
        ("assistant\n<thinking>", "<thinking>"),
        ("assistant\n<think>\n\n</think>\n\n", ""),
        ("say <think> to me\nassistant:", ""),
    ],
)
def test_reasoning_is_open_where_a_prompt_ends_with_its_tag(prompt: str, tag: str) -> None:
    assert open_reasoning(prompt) == tag
