"""The form that an answer is held to, and what no form can be made of."""

from __future__ import annotations

from typing import Any

import pytest

from engine.errors import InvalidRequestError
from tests.worker.models.thinker.tiny_chat import tiny_tokenizer
from worker.models.thinker.answer_form import check_form, make_form, read_format
from worker.models.thinker.tool_choice import read_tooling

pytestmark = pytest.mark.vllm

CITY = {"type": "object", "properties": {"city": {"enum": ["Bern"]}}, "required": ["city"]}
WAIT = {"type": "function", "function": {"name": "wait", "parameters": {"type": "object"}}}


def json_schema(schema: Any, **more: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "n", "schema": schema, **more}}


def takes(text: str, given: Any, **tooling: Any) -> bool:
    """Whether an answer in the form may be this text, to its end."""
    import llguidance
    import llguidance.hf

    form = make_form(read_tooling(tooling), read_format(given))
    assert form is not None
    check_form(form)
    tokenizer = tiny_tokenizer()
    reader = llguidance.LLMatcher(
        llguidance.hf.from_tokenizer(tokenizer), llguidance.grammar_from("grammar", form.grammar)
    )
    ids = tokenizer.encode(text, add_special_tokens=False)
    return bool(reader.validate_tokens(ids) == len(ids)) and bool(
        reader.consume_tokens(ids) and reader.is_accepting()
    )


def test_an_answer_that_may_be_text_has_no_form() -> None:
    for given in (None, {"type": "text"}):
        assert make_form(read_tooling({"tools": [WAIT]}), read_format(given)) is None


def test_json_is_an_object_without_blanks() -> None:
    given = {"type": "json_object"}
    assert takes('{"a":[1,{}]}', given)
    for text in ("[1]", '{"a": 1}', "Hello", '{"a":1} ', '{"a":'):
        assert not takes(text, given)


def test_json_is_of_its_schema() -> None:
    assert takes('{"city":"Bern"}', json_schema(CITY, strict=True))
    assert not takes('{"city":"Bonn"}', json_schema(CITY))
    assert takes('{"x":1}', {"type": "json_schema", "json_schema": {"name": "n"}})


CALL = '<tool_call>\n{"name":"wait","arguments":{}}\n</tool_call>'


def test_beside_tools_an_answer_is_json_or_calls() -> None:
    given = json_schema(CITY)
    assert takes('{"city":"Bern"}', given, tools=[WAIT])
    assert takes(CALL, given, tools=[WAIT])
    assert takes(f"{CALL}\n{CALL}", given, tools=[WAIT])
    assert not takes(f"{CALL}\n{CALL}", given, tools=[WAIT], parallel_tool_calls=False)
    assert not takes(CALL.replace("wait", "run"), given, tools=[WAIT])
    assert not takes(CALL, given, tools=[WAIT], tool_choice="none")


def test_a_call_that_must_be_made_is_all_there_is() -> None:
    body = '{"name":"wait","arguments":{}}'
    for given in (None, json_schema(CITY)):
        assert takes(body, given, tools=[WAIT], tool_choice="required")
        assert not takes('{"city":"Bern"}', given, tools=[WAIT], tool_choice="required")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("json", "response_format.type"),
        ({"type": "yaml"}, 'response_format.type must be one of "text", "json_object"'),
        ({}, "response_format.type"),
        ({"type": "json_schema"}, "response_format.json_schema must be"),
        (json_schema([]), "response_format.json_schema.schema must be a JSON schema"),
        (json_schema(CITY, strict="yes"), "response_format.json_schema.strict"),
        (json_schema({"properties": {f"p{n}": {} for n in range(2000)}}), "at most 400 properties"),
    ],
)
def test_a_format_that_is_none_is_refused_by_name(given: Any, words: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        read_format(given)
    assert caught.value.param == "response_format"
    assert words in caught.value.message


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "strin"}, "Invalid type: strin"),
        ({"$ref": "#/nowhere"}, "/nowhere"),
        ({"$ref": "http://127.0.0.1/secret"}, "not present"),
        ({"type": "string", "pattern": "(?=a)b"}, "regex parse error"),
    ],
)
def test_a_schema_of_which_no_grammar_can_be_made_is_refused_by_name(
    schema: dict[str, Any], words: str
) -> None:
    tool = {"type": "function", "function": {"name": "x", "parameters": schema}}
    asked: list[tuple[str, dict[str, Any], Any]] = [
        ("response_format", {}, json_schema(schema)),
        ("tools", {"tools": [tool], "tool_choice": "required"}, None),
        ("tools", {"tools": [tool]}, json_schema(CITY)),
    ]
    for param, tooling, given in asked:
        form = make_form(read_tooling(tooling), read_format(given))
        assert form is not None
        with pytest.raises(InvalidRequestError) as caught:
            check_form(form)
        assert caught.value.param == param
        assert words in caught.value.message
        assert "\n" not in caught.value.message


def test_what_cannot_be_kept_is_left_out_unless_it_is_strict() -> None:
    schema = {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}
    assert takes("[1,1]", json_schema(schema))
    form = make_form(read_tooling({}), read_format(json_schema(schema, strict=True)))
    assert form is not None
    with pytest.raises(InvalidRequestError, match="uniqueItems"):
        check_form(form)


def test_tools_are_bounded_where_an_answer_is_held_to_them() -> None:
    many: dict[str, Any] = {"properties": {f"p{n}": {} for n in range(2000)}}
    tool = {"type": "function", "function": {"name": "x", "parameters": many}}
    free = read_tooling({"tools": [tool]})
    assert make_form(free, None) is None
    for tooling, given in (
        (free, {"type": "json_object"}),
        (read_tooling({"tools": [tool], "tool_choice": "required"}), None),
    ):
        with pytest.raises(InvalidRequestError, match="at most 400 properties") as caught:
            make_form(tooling, read_format(given))
        assert caught.value.param == "tools"
