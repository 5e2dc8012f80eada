"""A thinker in an engine with real processes: text and speech of the same answer, and failures."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from engine.async_omni_engine import AsyncOmniEngine
from engine.errors import (
    ContextLengthError,
    DeadlineExceededError,
    InvalidRequestError,
    StageFailedError,
    UnavailableError,
    VoxloomError,
)
from engine.pipeline import PipelineConfig, StageConfig, load_pipeline
from tests.closed_port import closed_port
from tests.engine.running import run, running
from tests.language_models import ScriptedLlm, scripted_llm

pytestmark = [pytest.mark.model, pytest.mark.process]


@dataclass
class Answer:
    text: str = ""
    calls: list[dict[str, Any]] = field(default_factory=list)
    finish_reason: str | None = None
    usage: dict[str, int] | None = None
    audio: bytearray = field(default_factory=bytearray)
    words: list[Any] = field(default_factory=list)
    order: list[str] = field(default_factory=list)

    def spoken(self) -> list[str]:
        """The words that were spoken, as the answer has them."""
        return [self.text[first:last] for _, _, first, last in self.words]


def thinking(base_url: str, *, timeout_s: float = 120.0, **more: Any) -> PipelineConfig:
    speech = load_pipeline("hibari")
    options = {"base_url": base_url, "model": "m", "timeout_s": timeout_s, "max_retries": 0} | more
    think = StageConfig(
        name="think",
        model="worker.models.thinker.openai_stage:load",
        engine_output_type="text",
        options=options,
        max_batch_size=8,
    )
    read = StageConfig(
        name="prosody", model="worker.models.thinker.speech:load", max_pending_units=4096
    )
    return PipelineConfig(
        name="thinking",
        description="a thinker and a voice",
        stages=(think, read, speech.stages[1]),
        voices_func="worker.models.thinker.adapter:list_voices",
        prompt_transform_func="worker.models.thinker.adapter:transform_prompt",
    )


@pytest.fixture(scope="module")
def llm() -> Iterator[ScriptedLlm]:
    with scripted_llm() as model:
        yield model


async def ask(
    engine: AsyncOmniEngine,
    request_id: str,
    content: str,
    *,
    speaks: bool = True,
    on_sound: Callable[[], None] | None = None,
    **prompt: Any,
) -> Answer:
    """``on_sound`` is called, on a thread, when the first sound has come."""
    answer = Answer()
    last = 2 if speaks else 0
    messages = [{"role": "user", "content": content}]
    outputs = engine.generate(
        request_id,
        {"messages": messages, **prompt},
        final_stage_id=last,
        final_output_stage_ids=sorted({0, last}),
    )
    async for output in outputs:
        thought = output.payload.get("thought")
        if thought is not None:
            answer.order.append("text")
            answer.text += thought["delta"]
            answer.calls += thought["calls"]
            answer.finish_reason = thought["finish_reason"] or answer.finish_reason
            answer.usage = thought["usage"] or answer.usage
        if output.audio is not None:
            if on_sound is not None and not answer.audio:
                await asyncio.to_thread(on_sound)
            answer.order.append("audio")
            answer.audio += output.audio
            answer.words += output.payload.get("words", [])
    return answer


def test_an_answer_is_heard_while_it_is_written_and_failures_stay_alone(llm: ScriptedLlm) -> None:
    async def scenario() -> None:
        async with running(thinking(llm.base_url)) as engine:
            await check_speech(engine)
            await check_blocks(engine)
            await check_calls(engine)
            await check_text_only(engine)
            await check_failures(engine)
            await check_many(engine)
            await check_truncation(engine, llm)

    run(scenario)


async def check_speech(engine: AsyncOmniEngine) -> None:
    answer = await ask(engine, "r1", "say Good morning. It is nine o'clock now.")
    assert answer.text == "Good morning. It is nine o'clock now."
    assert answer.finish_reason == "stop"
    assert answer.usage is not None
    assert answer.usage["prompt_tokens"] == 11
    assert len(answer.audio) > 2 * 24000
    assert answer.spoken() == ["Good", "morning.", "It", "is", "nine", "o'clock", "now."]


async def check_blocks(engine: AsyncOmniEngine) -> None:
    """Code and reasoning are in the text and not in the speech; places are those of the text."""
    text = r"<think>Hm.</think>Run this:\n```\nls\n```\nThat is all."
    answer = await ask(engine, "r2", f"say {text}")
    assert answer.text == "<think>Hm.</think>Run this:\n```\nls\n```\nThat is all."
    assert answer.spoken() == ["Run", "this:", "That", "is", "all."]


async def check_calls(engine: AsyncOmniEngine) -> None:
    answer = await ask(engine, "r3", 'call add {"a": 2, "b": 3}', tooling={"tools": [TOOL]})
    assert answer.finish_reason == "tool_calls"
    assert "".join(call["arguments"] for call in answer.calls) == '{"a": 2, "b": 3}'
    assert answer.calls[0]["name"] == "add"
    assert not answer.audio


async def check_text_only(engine: AsyncOmniEngine) -> None:
    answer = await ask(engine, "r4", "say Only text.", speaks=False)
    assert (answer.text, answer.order.count("audio")) == ("Only text.", 0)


async def check_failures(engine: AsyncOmniEngine) -> None:
    for index, (script, kind, words) in enumerate(FAILURES):
        with pytest.raises(kind) as caught:
            await ask(engine, f"bad{index}", script)
        assert words in caught.value.message
        assert "127.0.0.1" not in caught.value.message
    with pytest.raises(InvalidRequestError, match="unknown voice"):
        await ask(engine, "voice", "say x", voice="nobody")
    with pytest.raises(InvalidRequestError, match="messages"):
        async for _ in engine.generate("none", {"messages": []}):
            pass
    assert (await ask(engine, "after", "say Still here.")).text == "Still here."


async def check_many(engine: AsyncOmniEngine) -> None:
    """Each gets its own answer."""
    numbers = range(12)
    answers = await asyncio.gather(
        *(ask(engine, f"many{i}", f"say Number {i} here.") for i in numbers)
    )
    assert [answer.text for answer in answers] == [f"Number {i} here." for i in numbers]
    assert all(answer.audio for answer in answers)


async def check_truncation(engine: AsyncOmniEngine, llm: ScriptedLlm) -> None:
    """More than the model reads is its caller's failure, or is left out where that may be."""
    turns = [{"role": role, "content": "x" * 80} for role in ("user", "assistant")]
    messages = [*turns * 10, {"role": "user", "content": "say Good."}]
    await asyncio.to_thread(llm.reads, 100, "vllm")
    with pytest.raises(ContextLengthError, match="refused"):
        await ask(engine, "long", "", messages=messages)
    answer = await ask(engine, "less", "", messages=messages, truncation={})
    await asyncio.to_thread(llm.reads, 0)
    assert answer.spoken() == ["Good."]
    assert answer.usage is not None
    assert 0 < answer.usage["left_out_messages"] <= 10


def test_reasoning_that_the_prompt_has_opened_is_not_read_aloud(llm: ScriptedLlm) -> None:
    async def scenario() -> None:
        async with running(thinking(llm.base_url, opens_reasoning=True)) as engine:
            answer = await ask(engine, "r1", r"say Let me see.\n</think>\nIt is nine.")
            assert answer.text == "<think>\nLet me see.\n</think>\nIt is nine."
            assert answer.spoken() == ["It", "is", "nine."]
            answer = await ask(engine, "r2", "call add {}", tooling={"tools": [TOOL]})
            assert (answer.text, answer.finish_reason) == ("", "tool_calls")

    run(scenario)


def test_reasoning_in_a_field_of_its_own_is_no_part_of_the_answer(llm: ScriptedLlm) -> None:
    async def scenario() -> None:
        async with running(thinking(llm.base_url)) as engine:
            for field_name in ("reasoning", "reasoning_content"):
                script = f"think {field_name} Let me see.\nsay It is nine."
                answer = await ask(engine, field_name, script)
                assert (answer.text, answer.spoken()) == ("It is nine.", ["It", "is", "nine."])

    run(scenario)


def test_sound_comes_before_the_answer_is_whole() -> None:
    """The model writes its last words only when the first ones have been heard."""

    async def scenario(model: ScriptedLlm) -> None:
        async with running(thinking(model.base_url)) as engine:
            script = "say Good morning to you. And so\nwait\nsay  on it goes."
            answer = await ask(engine, "r", script, on_sound=model.go)
            assert answer.text == "Good morning to you. And so on it goes."
            assert "text" in answer.order[answer.order.index("audio") :]

    with scripted_llm() as model:
        run(lambda: scenario(model))


def test_an_abort_reaches_the_model() -> None:
    """The connection to it is closed, and the slot is free, though it says nothing."""

    async def scenario(base_url: str) -> None:
        async with running(thinking(base_url)) as engine:
            outputs = engine.generate(
                "r",
                {"messages": [{"role": "user", "content": "say One.\nhang"}]},
                final_stage_id=2,
                final_output_stage_ids=[0, 2],
            )
            async for output in outputs:
                if output.payload.get("thought", {}).get("delta"):
                    break
            await outputs.aclose()
            await engine.abort(["r"])

    with scripted_llm() as model:
        run(lambda: scenario(model.base_url))


def test_a_model_that_is_not_there_or_says_nothing_fails_the_request_alone() -> None:
    async def unreachable(port: int) -> None:
        async with running(thinking(f"http://127.0.0.1:{port}/v1")) as engine:
            with pytest.raises(UnavailableError, match="cannot be reached"):
                await ask(engine, "r", "say x")

    async def silent(base_url: str) -> None:
        async with running(thinking(base_url, timeout_s=0.5)) as engine:
            with pytest.raises(DeadlineExceededError, match="in time"):
                await ask(engine, "r", "say x\nhang")

    with closed_port() as port:
        run(lambda: unreachable(port))
    with scripted_llm() as model:
        run(lambda: silent(model.base_url))


TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
FAILURES: list[tuple[str, type[VoxloomError], str]] = [
    ("status 400", InvalidRequestError, "as the script says"),
    ("status 401", StageFailedError, "key"),
    ("status 429", UnavailableError, "too much"),
    ("status 500", StageFailedError, "500"),
    ("say One two\nbreak", StageFailedError, "broke off"),
]
