"""A chat model on vLLM as the thinker: its template, its words, what it refuses."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from engine.async_omni_engine import AsyncOmniEngine
from engine.errors import InvalidRequestError
from engine.messages import SamplingParams, StageRequest
from engine.pipeline import PipelineConfig, StageConfig, load_pipeline
from tests.engine.running import pids, run_for, running
from tests.worker.models.thinker.tiny_chat import (
    TEMPLATE,
    generate,
    tiny_tokenizer,
    write_tiny_chat,
)
from tests.worker.vllm.engines import PATIENT, all_ready
from tests.worker.vllm.pipelines import tiny_llm
from worker.models.thinker.answer_form import make_form, read_format
from worker.models.thinker.question import Question
from worker.models.thinker.tool_choice import read_tooling
from worker.models.thinker.vllm_adapter import ChatAdapter, ChatOptions, ThoughtSink
from worker.vllm.adapter import Burst
from worker.vllm.sampling import TokenSampling

LIMIT_S = 600.0
NUM_TRIES = 5
BROKEN = "\N{REPLACEMENT CHARACTER}"
HELLO = [{"role": "user", "content": "Hello?"}]
NUMBER = {"$ref": "#/$defs/number"}
ADD = {
    "type": "object",
    "properties": {"a": NUMBER},
    "required": ["a"],
    "additionalProperties": False,
    "$defs": {"number": {"enum": [1, 22]}},
}
WAIT = {"type": "object", "properties": {}, "additionalProperties": False}
TOOLS = [
    {"type": "function", "function": {"name": "add", "parameters": ADD}},
    {"type": "function", "function": {"name": "wait", "parameters": WAIT}},
]
WORD = {"type": "string", "pattern": "^[a-f]{45}$"}
SPELLING = {
    "type": "object",
    "properties": {"word": WORD},
    "required": ["word"],
    "additionalProperties": False,
}
SPELL = {"type": "function", "function": {"name": "spell", "parameters": SPELLING}}
NAMED = {"type": "function", "function": {"name": "add"}}


class Letters:
    """A tokenizer: a token is a character's number."""

    def decode(self, token_ids: list[int], skip_special_tokens: bool = True) -> str:
        return "".join(map(chr, token_ids))


def feed(sink: ThoughtSink, text: str, position: int = 0, **ending: Any) -> dict[str, Any]:
    payload = sink.feed(Burst(position, list(map(ord, text)), text, **ending))
    assert payload is not None
    thought: dict[str, Any] = payload["thought"]
    return thought


def new_sink(begun: str = "") -> ThoughtSink:
    return ThoughtSink(ChatAdapter(Letters(), ChatOptions(), is_first=True), 5, begun)


def test_tokens_become_thoughts() -> None:
    sink = new_sink()
    assert feed(sink, "Hi. ")["pieces"] == [["Hi. ", 0, False]]
    last = feed(sink, "Bye.", 4, finish_reason="stop")
    assert (last["delta"], last["finish_reason"]) == ("Bye.", "stop")
    assert last["usage"]["prompt_tokens"] == 5
    assert last["usage"]["completion_tokens"] == 8


def test_calls_are_taken_out_and_end_the_answer() -> None:
    sink = new_sink()
    assert feed(sink, "<tool_call>")["delta"] == ""
    (call,) = feed(sink, '{"name": "add", "arguments": {}}</tool_call>', 11)["calls"]
    assert call["name"] == "add"
    assert feed(sink, "\n", 60, finish_reason="stop")["finish_reason"] == "tool_calls"


def test_a_replayed_answer_goes_on_where_it_was() -> None:
    whole, again = new_sink(), new_sink()
    feed(whole, "<think>Hm")
    again.feed(Burst(0, list(map(ord, "<think>Hm")), is_replay=True))
    expected = feed(whole, ".</think>Yes.", 9, finish_reason="stop")
    assert feed(again, ".</think>Yes.", 9, finish_reason="stop") == expected
    assert expected["pieces"] == [["Yes.", 18, True]]


def test_the_end_of_a_single_call_is_what_stopped_it() -> None:
    sink = new_sink("<tool_call>\n")
    last = feed(sink, '{"name": "add", "arguments": {"a": 1}}', finish_reason="stop")
    assert (last["delta"], last["finish_reason"]) == ("", "tool_calls")
    assert last["calls"][0]["arguments"] == '{"a": 1}'
    cut = feed(new_sink("<tool_call>\n"), '{"name": "a', finish_reason="length")
    assert (cut["delta"], cut["calls"], cut["finish_reason"]) == (
        '<tool_call>\n{"name": "a',
        [],
        "length",
    )


def render(template_end: str, response_format: Any = None, **tooling: Any) -> tuple[str, str]:
    """The end of the prompt, and what of the answer is in it."""
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = f"{TEMPLATE}{{{{ {json.dumps(template_end)} }}}}"
    adapter = ChatAdapter(tokenizer, ChatOptions(), is_first=True)
    asked = read_tooling(tooling)
    form = make_form(asked, read_format(response_format))
    question = Question(HELLO, asked, TokenSampling(max_tokens=1), form)
    ids, begun = adapter.render(question)
    return tokenizer.decode(ids).partition("<|assistant|>")[2], begun


@pytest.mark.torch
def test_an_answer_that_begins_inside_its_reasoning_is_known_by_its_prompt() -> None:
    assert render("") == ("", "")
    assert render("<think>\n") == ("<think>\n", "<think>\n")
    assert render("<think>\n\n</think>\n\n") == ("<think>\n\n</think>\n\n", "")
    sink = new_sink("<think>\n")
    assert feed(sink, "Hm.")["pieces"] == []
    last = feed(sink, "</think>Yes.", 3, finish_reason="stop")
    assert last["pieces"] == [["Yes.", 19, True]]


@pytest.mark.torch
@pytest.mark.vllm
def test_a_call_that_must_be_made_is_begun_behind_the_reasoning() -> None:
    forced = {"tools": TOOLS, "tool_choice": "required"}
    assert render("", **forced) == ("<tool_call>\n", "<tool_call>\n")
    end = "<think>\n</think>\n\n<tool_call>\n"
    assert render("<think>\n", **forced) == (end, end)


@pytest.mark.torch
@pytest.mark.vllm
def test_json_begins_behind_the_reasoning() -> None:
    wanted = {"type": "json_object"}
    assert render("", wanted) == ("", "")
    end = "<think>\n</think>\n\n"
    assert render("<think>\n", wanted) == (end, "")


def test_a_call_that_was_lost_in_its_middle_is_gone_on_with() -> None:
    adapter = ChatAdapter(Letters(), ChatOptions(), is_first=True)
    prompt = {"messages": HELLO, "tooling": {"tools": TOOLS, "tool_choice": "required"}}
    request = StageRequest("r", prompt, SamplingParams(), seed=1, prefix_tokens=[1, 2])
    assert adapter.read_question(request).sampling.grammar is not None
    for num_had in (1, 9):
        sink = new_sink("<tool_call>\n")
        call = '{"name": "add", "arguments": {"a": 1}}'
        sink.feed(Burst(0, list(map(ord, call[:num_had])), is_replay=True))
        last = feed(sink, call[num_had:], num_had, finish_reason="stop")
        assert (last["delta"], last["finish_reason"]) == ("", "tool_calls")
        assert last["calls"][0]["arguments"] == '{"a": 1}'


def thinking(checkpoint: Path, **options: Any) -> PipelineConfig:
    speech = load_pipeline("hibari")
    think = StageConfig(
        name="think",
        model="worker.models.thinker.vllm_adapter:load",
        stage_type="llm",
        engine_output_type="text",
        start_timeout_s=600.0,
        replica_deadline_s=300.0,
        llm=tiny_llm(checkpoint, tokenizer=str(checkpoint), max_model_len=256),
        options={"temperature": 0.0, "max_tokens": 90} | options,
    )
    read = StageConfig(
        name="read", model="worker.models.thinker.speech:load", max_pending_units=4096
    )
    return PipelineConfig(
        name="thinking",
        description="a language model and a voice",
        stages=(think, read, speech.stages[1]),
        voices_func="worker.models.thinker.adapter:list_voices",
        prompt_transform_func="worker.models.thinker.adapter:transform_prompt",
    )


async def ask(
    engine: AsyncOmniEngine, request_id: str, **prompt: Any
) -> tuple[str, dict[str, Any], int]:
    """The text, the last thought, and how many samples were spoken."""
    text, last, num_samples = "", dict[str, Any](), 0
    outputs = engine.generate(
        request_id,
        {"messages": HELLO} | prompt,
        final_stage_id=2,
        final_output_stage_ids=[0, 2],
    )
    async for output in outputs:
        if "thought" in output.payload:
            last = output.payload["thought"]
            text += last["delta"]
        num_samples += output.num_samples if output.audio is not None else 0
    return text, last, num_samples


async def check_forced_calls(engine: AsyncOmniEngine) -> None:
    """A model with random weights makes the call that it must make, and none of another form."""
    for number, choice in enumerate(("required", NAMED)):
        tooling = {"tools": TOOLS, "tool_choice": choice}
        text, last, num_samples = await ask(
            engine, f"call{number}", tooling=tooling, sampling={"max_tokens": 90}
        )
        (call,) = last["calls"]
        assert (text, num_samples, last["finish_reason"]) == ("", 0, "tool_calls")
        assert call["name"] in ("add", "wait") if choice == "required" else call["name"] == "add"
        arguments = json.loads(call["arguments"])
        assert arguments == {} if call["name"] == "wait" else arguments["a"] in (1, 22)
    # What no grammar can be made of is its request's failure alone.
    broken = [{"type": "function", "function": {"name": "x", "parameters": {"$ref": "#/no"}}}]
    with pytest.raises(InvalidRequestError):
        await ask(engine, "bad", tooling={"tools": broken, "tool_choice": "required"})
    assert (await ask(engine, "after"))[1]["usage"]["completion_tokens"] > 0


async def check_formats(engine: AsyncOmniEngine) -> None:
    """It writes JSON of the schema, spoken or not, and with tools that or a call."""
    city = {"enum": ["Bern", "Bonn"]}
    schema = {
        "type": "object",
        "properties": {"city": city, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
        "required": ["city", "days"],
        "additionalProperties": False,
    }
    described = {"name": "trip", "schema": schema, "strict": True}
    sampling = {"response_format": {"type": "json_schema", "json_schema": described}}
    text, last, num_samples = await ask(engine, "format", sampling=sampling)
    answer = json.loads(text)
    assert (list(answer), last["finish_reason"]) == (["city", "days"], "stop")
    assert answer["city"] in ("Bern", "Bonn")
    assert num_samples > 0
    for number in range(4):
        drawn = sampling | {"temperature": 1.0, "seed": number}
        tooling = {"tools": TOOLS, "parallel_tool_calls": False}
        text, last, _ = await ask(engine, f"either{number}", sampling=drawn, tooling=tooling)
        if last["calls"]:
            assert (last["finish_reason"], text) == ("tool_calls", "")
            assert json.loads(last["calls"][0]["arguments"]) is not None
        else:
            assert list(json.loads(text)) == ["city", "days"]
    broken = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "strin"}}}
    with pytest.raises(InvalidRequestError, match="strin") as caught:
        await ask(engine, "broken", sampling={"response_format": broken})
    assert caught.value.param == "response_format"


async def spell(
    engine: AsyncOmniEngine, request_id: str, num_before_loss: int | None = None
) -> list[dict[str, Any]]:
    """The pieces of a call that must be made; when so many thoughts have come the replica dies."""
    calls, num_thoughts = list[dict[str, Any]](), 0
    tooling = {"tools": [SPELL], "tool_choice": {"type": "function", "function": {"name": "spell"}}}
    async for output in engine.generate(
        request_id,
        {"messages": HELLO, "tooling": tooling, "sampling": {"max_tokens": 90}},
        final_stage_id=0,
        final_output_stage_ids=[0],
    ):
        thought = output.payload.get("thought")
        if thought is None:
            continue
        calls += thought["calls"]
        num_thoughts += 1
        if num_thoughts == num_before_loss:
            os.kill(pids(engine, 0)[0], signal.SIGKILL)
        assert thought["delta"] == ""
        assert thought["finish_reason"] in (None, "tool_calls")
    return calls


async def check_lost_call(engine: AsyncOmniEngine) -> None:
    """A forced call whose replica is lost in its middle comes whole and once, as without that.

    One that had been written whole before the loss was seen is no replay: then the next is lost.
    """
    (expected,) = await spell(engine, "spelled")
    assert re.fullmatch("[a-f]{45}", json.loads(expected["arguments"])["word"])
    num_before = engine.snapshot.counters.num_replays
    for number in range(NUM_TRIES):
        (call,) = await spell(engine, f"lost{number}", 5)
        assert call == expected
        await all_ready(engine)
        if engine.snapshot.counters.num_replays > num_before:
            return
    raise AssertionError("no call was lost in its middle")


@pytest.mark.vllm
@pytest.mark.model
@pytest.mark.process
@pytest.mark.filterwarnings("default")
def test_a_chat_model_thinks_as_transformers_does_and_is_spoken(tmp_path: Path) -> None:
    checkpoint = write_tiny_chat(tmp_path)
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    expected = tokenizer.decode(generate(checkpoint, HELLO, 24), skip_special_tokens=True)

    async def scenario() -> None:
        async with running(thinking(checkpoint), PATIENT, LIMIT_S) as engine:
            text, last, _ = await ask(engine, "r1", sampling={"max_tokens": 24})
            # Bytes at the end that are no whole character are told by one and not by the other.
            assert text.rstrip(BROKEN) == expected.rstrip(BROKEN)
            assert last["finish_reason"] in ("stop", "length")
            assert last["usage"]["completion_tokens"] <= 24
            letters = dict.fromkeys(range(ord("a"), ord("e")), 100.0)
            bias = {str(tokenizer.convert_tokens_to_ids(chr(c))): 100.0 for c in letters}
            sampling = {"logit_bias": bias, "max_tokens": 24}
            text, _, num_samples = await ask(engine, "r2", sampling=sampling)
            assert set(text) <= set("abcd")
            assert num_samples > 0
            with pytest.raises(InvalidRequestError, match="smell"):
                await ask(engine, "r3", sampling={"smell": 1})
            with pytest.raises(InvalidRequestError):
                await ask(engine, "r4", messages=[{"role": "user", "content": "x" * 5000}])
            instructed = [{"role": "system", "content": "Greet the user."}]
            _, last, _ = await ask(engine, "r5", messages=instructed, sampling=sampling)
            assert last["usage"]["completion_tokens"] > 0
            await check_forced_calls(engine)
            await check_formats(engine)
            await check_lost_call(engine)

    run_for(scenario, 2 * LIMIT_S)
