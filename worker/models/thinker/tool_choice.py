"""What ``tools``, ``tool_choice`` and ``parallel_tool_calls`` mean where a model writes its calls.

A call that must be made is begun for the model, and what it writes then is held to a JSON schema:
the name of a tool that is allowed, and arguments as that tool's parameters say.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from engine.errors import InvalidRequestError
from worker.models.thinker.schema_bounds import check_bounds

_CHOICES = '"auto", "none", "required" or {"type": "function", "function": {"name": a tool\'s}}'
_DEFINITIONS = ("$defs", "definitions")


@dataclass(frozen=True, slots=True)
class Tooling:
    """``shown`` are the tools that the template tells of, ``functions`` those that may be called.

    ``must_call``: the answer is one call. ``is_single``: the answer ends with its first call.
    """

    shown: list[dict[str, Any]] = field(default_factory=list)
    functions: list[dict[str, Any]] = field(default_factory=list)
    must_call: bool = False
    is_single: bool = False

    @property
    def is_strict(self) -> bool:
        """What of the parameters cannot be kept is refused, not left out."""
        return all(function.get("strict") is True for function in self.functions)

    def call_schema(self) -> dict[str, Any]:
        """A call, as the model writes it. Raises ``InvalidRequestError`` if the tools are too many,
        or do not go together.
        """
        named = [{"name": f["name"], "parameters": f.get("parameters")} for f in self.functions]
        check_bounds(named, "the parameters of tools that an answer is held to", "tools")
        return _schema(self.functions)


def read_tooling(given: dict[str, Any]) -> Tooling:
    """The chat API's fields of a request. Raises ``InvalidRequestError`` that names the field."""
    tools = given.get("tools") or []
    choice = given.get("tool_choice", "auto")
    functions = [_function(tool, f"tools[{index}]") for index, tool in enumerate(tools)]
    is_single = given.get("parallel_tool_calls") is False
    if choice is None or choice == "auto":
        return Tooling(tools, functions, is_single=is_single)
    if choice == "none":
        return Tooling()
    if choice != "required":
        functions = [_named(choice, functions)]
    if not functions:
        raise InvalidRequestError(
            'tool_choice "required" needs tools to choose from', param="tool_choice"
        )
    return Tooling(tools, functions, must_call=True, is_single=True)


def _function(tool: Any, path: str) -> dict[str, Any]:
    function = tool.get("function") if isinstance(tool, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise InvalidRequestError(
            f'{path} must be {{"type": "function", "function": {{"name": ...}}}}', param="tools"
        )
    parameters = function.get("parameters") or {}
    is_schema = isinstance(parameters, dict) and all(
        isinstance(parameters.get(key) or {}, dict) for key in _DEFINITIONS
    )
    if not is_schema:
        raise InvalidRequestError(
            f"{path}.function.parameters must be a JSON schema", param="tools"
        )
    return function


def _named(choice: Any, functions: list[dict[str, Any]]) -> dict[str, Any]:
    named = choice.get("function") if isinstance(choice, dict) else None
    name = named.get("name") if isinstance(named, dict) else None
    if not isinstance(name, str) or choice.get("type") != "function":
        raise InvalidRequestError(f"tool_choice must be {_CHOICES}", param="tool_choice")
    found = next((function for function in functions if function["name"] == name), None)
    if found is None:
        known = ", ".join(function["name"] for function in functions) or "none"
        raise InvalidRequestError(
            f"tool_choice: there is no tool {name[:64]!r}; tools are: {known}"[:300],
            param="tool_choice",
        )
    return found


def _schema(functions: list[dict[str, Any]]) -> dict[str, Any]:
    """A call of one of them. References begin at the root, so definitions go there."""
    shared: dict[str, dict[str, Any]] = {}
    calls = []
    for function in functions:
        parameters = dict(function.get("parameters") or {"type": "object"})
        for key in _DEFINITIONS:
            for name, schema in (parameters.pop(key, None) or {}).items():
                if shared.setdefault(key, {}).setdefault(name, schema) != schema:
                    raise InvalidRequestError(
                        f"tools: {key}/{name} differs between two tools", param="tools"
                    )
        properties = {"name": {"const": function["name"]}, "arguments": parameters}
        calls.append(
            {
                "type": "object",
                "properties": properties,
                "required": ["name", "arguments"],
                "additionalProperties": False,
            }
        )
    return shared | (calls[0] if len(calls) == 1 else {"anyOf": calls})
