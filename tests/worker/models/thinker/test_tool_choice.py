"""Which tools a model is told of, and which it must call."""

from __future__ import annotations

from typing import Any

import pytest

from engine.errors import InvalidRequestError
from worker.models.thinker.tool_choice import Tooling, read_tooling


def tool(name: str, **parameters: Any) -> dict[str, Any]:
    function = {"name": name, "parameters": {"type": "object", **parameters}}
    return {"type": "function", "function": function}


ADD = tool("add", properties={"a": {"$ref": "#/$defs/n"}}, **{"$defs": {"n": {"type": "integer"}}})
WAIT = tool("wait")
BOTH = [ADD, WAIT]


def test_a_model_is_free_unless_it_is_told() -> None:
    assert read_tooling({}) == Tooling()
    functions = [tool["function"] for tool in BOTH]
    assert read_tooling({"tools": BOTH, "tool_choice": "auto"}) == Tooling(BOTH, functions)
    assert read_tooling({"tools": BOTH, "tool_choice": "none"}) == Tooling()
    assert read_tooling({"tools": BOTH, "parallel_tool_calls": False}).is_single


def test_one_of_all_tools_is_required() -> None:
    tooling = read_tooling({"tools": BOTH, "tool_choice": "required"})
    assert (tooling.shown, tooling.must_call, tooling.is_single) == (BOTH, True, True)
    schema = tooling.call_schema()
    names = [call["properties"]["name"]["const"] for call in schema["anyOf"]]
    assert names == ["add", "wait"]
    # References in the parameters still lead somewhere.
    assert schema["$defs"] == {"n": {"type": "integer"}}
    assert "$defs" not in schema["anyOf"][0]["properties"]["arguments"]
    assert "$defs" in ADD["function"]["parameters"]


def test_a_tool_that_is_named_is_the_only_one() -> None:
    choice = {"type": "function", "function": {"name": "wait"}}
    tooling = read_tooling({"tools": BOTH, "tool_choice": choice})
    assert tooling.must_call
    assert tooling.call_schema()["properties"]["name"] == {"const": "wait"}


OTHER = tool("other", **{"$defs": {"n": {"type": "string"}}})
ALLOWED = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}


@pytest.mark.parametrize(
    ("tools", "choice", "param", "words"),
    [
        (BOTH, "maybe", "tool_choice", "required"),
        (BOTH, 3, "tool_choice", "required"),
        (BOTH, ALLOWED, "tool_choice", "must be"),
        (BOTH, {"type": "function", "function": {"name": "sub"}}, "tool_choice", "add, wait"),
        ([], "required", "tool_choice", "needs tools"),
        ([{"type": "function"}], "auto", "tools", "tools[0]"),
        ([WAIT, "x"], "auto", "tools", "tools[1]"),
        (
            [{"type": "function", "function": {"name": "x", "parameters": [1]}}],
            "auto",
            "tools",
            "parameters",
        ),
        ([tool("x", **{"$defs": ["n"]})], "required", "tools", "parameters"),
        ([ADD, OTHER], "required", "tools", "$defs/n"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(
    tools: list[Any], choice: Any, param: str, words: str
) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        read_tooling({"tools": tools, "tool_choice": choice}).call_schema()
    assert caught.value.param == param
    assert words in caught.value.message


def test_tools_are_strict_if_all_of_them_are() -> None:
    strict = {"type": "function", "function": {"name": "x", "strict": True}}
    assert read_tooling({"tools": [strict]}).is_strict
    assert not read_tooling({"tools": [strict, WAIT]}).is_strict
