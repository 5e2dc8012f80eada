"""The form that an answer must have, as a grammar: a call, a JSON value, or either.

``response_format`` asks for JSON. Tools that may be called beside it leave the model the choice; a
call that must be made comes alone. Grammars are written in the Lark of llguidance.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from engine.errors import InvalidRequestError
from worker.models.thinker.hermes_calls import CLOSE, OPEN
from worker.models.thinker.schema_bounds import check_bounds
from worker.models.thinker.tool_choice import Tooling

FIELD = "response_format"
_TYPES = '"text", "json_object" or "json_schema"'
_ANY_OBJECT = {"type": "object"}


@dataclass(frozen=True, slots=True)
class JsonFormat:
    """JSON of that schema. ``is_strict``: what of it cannot be kept is refused, not left out."""

    schema: dict[str, Any]
    is_strict: bool = False


@dataclass(frozen=True, slots=True)
class AnswerForm:
    """``grammar`` is made of ``parts``: grammars as well, each with the field that it comes from.

    ``begins_call``: the answer is one call, whose opening tag is written for the model.
    """

    grammar: str
    parts: tuple[tuple[str, str], ...]
    begins_call: bool = False


def read_format(given: Any) -> JsonFormat | None:
    """``response_format`` of the chat API; None for text. Raises ``InvalidRequestError``."""
    kind = given.get("type") if isinstance(given, dict) else None
    if given is None or kind == "text":
        return None
    if kind == "json_object":
        return JsonFormat(_ANY_OBJECT)
    if kind != "json_schema":
        raise _refuse(".type", f"one of {_TYPES}")
    described = given.get("json_schema")
    if not isinstance(described, dict):
        raise _refuse(".json_schema", "an object with name and schema")
    schema = described.get("schema")
    if schema is None:
        schema = _ANY_OBJECT
    if not isinstance(schema, dict):
        raise _refuse(".json_schema.schema", "a JSON schema")
    strict = described.get("strict")
    if strict not in (None, True, False):
        raise _refuse(".json_schema.strict", "true or false")
    check_bounds([schema], f"{FIELD}.json_schema.schema", FIELD)
    return JsonFormat(schema, bool(strict))


def make_form(tooling: Tooling, wanted: JsonFormat | None) -> AnswerForm | None:
    """None for an answer that is free. Raises ``InvalidRequestError`` about ``tools``."""
    if not tooling.must_call and wanted is None:
        return None
    call = "" if not tooling.functions else _json(tooling.call_schema(), tooling.is_strict)
    if tooling.must_call or wanted is None:
        grammar = f"start: {call}\n"
        return AnswerForm(grammar, (("tools", grammar),), begins_call=True)
    answer = _json(wanted.schema, wanted.is_strict)
    parts = [(FIELD, f"start: {answer}\n")]
    if not call:
        return AnswerForm(parts[0][1], tuple(parts))
    parts.append(("tools", f"start: {call}\n"))
    calls = "call" if tooling.is_single else r'call ("\n" call)*'
    rules = (
        "start: answer | calls",
        f"answer: {answer}",
        f"calls: {calls}",
        rf'call: "{OPEN}\n" body "\n{CLOSE}"',
        f"body: {call}",
    )
    return AnswerForm("\n".join(rules) + "\n", tuple(parts))


def check_form(form: AnswerForm) -> None:
    """Takes up to some tenths of a second, on any thread; runs nothing of Python meanwhile.

    Raises ``InvalidRequestError`` about the field of which no grammar can be made.
    """
    import llguidance

    for param, grammar in form.parts:
        try:
            checked = llguidance.grammar_from("grammar", grammar)
            problem = llguidance.LLMatcher.validate_grammar(checked)
        except ValueError as error:
            problem = str(error)
        if problem:
            said = problem.partition("\n")[0].rpartition("failed to compile JSON schema: ")[2]
            raise InvalidRequestError(
                f"{param}: no answer can be held to this schema: {said[:200]}", param=param
            )


def _json(schema: dict[str, Any], is_strict: bool) -> str:
    """JSON without blanks, of which a model could otherwise write any number."""
    options = {"whitespace_flexible": False, "lenient": not is_strict, "coerce_one_of": True}
    return f"%json {json.dumps(schema | {'x-guidance': options})}"


def _refuse(path: str, allowed: str) -> InvalidRequestError:
    return InvalidRequestError(f"{FIELD}{path} must be {allowed}", param=FIELD)
