"""A model elsewhere that refuses long prompts is asked again with fewer messages."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from engine.errors import ContextLengthError, InvalidRequestError
from tests.language_models import ScriptedLlm, scripted_llm
from worker.models.thinker.asking import ask
from worker.models.thinker.endpoint import Endpoint, EndpointOptions

SERVERS = ("openai", "vllm", "llama.cpp", "ollama")
LIMIT_S = 120.0
SYSTEM: dict[str, Any] = {"role": "system", "content": "Be brief."}
NEWEST: dict[str, Any] = {"role": "user", "content": "say Good."}
MAX_TRIES = 6


@pytest.fixture(scope="module")
def llm() -> Iterator[ScriptedLlm]:
    with scripted_llm() as model:
        yield model


def turns(number: int) -> list[dict[str, Any]]:
    """So many exchanges, of a hundred tokens of the scripted model each."""
    return [
        {"role": role, "content": f"{n:03} ".ljust(200, "x")}
        for n in range(number)
        for role in ("user", "assistant")
    ]


def answer(
    llm: ScriptedLlm, messages: list[dict[str, Any]], **prompt: Any
) -> tuple[str, dict[str, int], list[list[dict[str, Any]]]]:
    """The answer's text, its usage, and the messages of each try."""
    before = len(llm.asked())

    async def scenario() -> tuple[str, dict[str, int]]:
        options = EndpointOptions(base_url=llm.base_url, model="m", max_retries=0)
        text, usage = "", dict[str, int]()
        async for thought in ask(Endpoint(options), {"messages": messages, **prompt}):
            text += thought.text
            usage = thought.usage or usage
        return text, usage

    text, usage = asyncio.run(asyncio.wait_for(scenario(), LIMIT_S))
    return text, usage, [body["messages"] for body in llm.asked()[before:]]


@pytest.mark.parametrize("server", SERVERS)
def test_the_oldest_messages_are_left_out_until_the_model_takes_them(
    llm: ScriptedLlm, server: str
) -> None:
    llm.reads(1000, server)
    asked = [SYSTEM, *turns(30), NEWEST]
    text, usage, tries = answer(llm, asked, truncation={})
    assert text == "Good."
    assert tries[0] == asked
    assert 2 <= len(tries) <= MAX_TRIES
    sent = tries[-1]
    assert sent[0] == SYSTEM
    assert sent[1:] == asked[len(asked) - len(sent) + 1 :]
    # A good part of what it reads is used, and a question goes with its answer.
    assert len(sent) >= 2 + 2 * 3
    assert sent[1]["role"] == "user"
    assert usage["left_out_messages"] == 30 - (len(sent) - 2) // 2


def test_what_the_model_says_that_it_reads_is_enough_to_know_how_much_must_go(
    llm: ScriptedLlm,
) -> None:
    for number in (12, 30, 300):
        llm.reads(1000, "vllm")
        tries = answer(llm, [SYSTEM, *turns(number), NEWEST], truncation={})[2]
        assert len(tries) == 2
        assert len(tries[1]) == 2 + 2 * 6


def test_a_share_that_is_left_keeps_the_beginning_of_the_prompts_that_follow(
    llm: ScriptedLlm,
) -> None:
    llm.reads(1000, "llama.cpp")
    truncation = {"retention_ratio": 0.5}
    begins = [
        answer(llm, [SYSTEM, *turns(number), NEWEST], truncation=truncation)[2][-1][1]["content"]
        for number in range(12, 24)
    ]
    assert begins == sorted(begins)
    assert len(set(begins)) <= 4


def test_what_the_client_allows_is_kept_to_before_the_model_is_asked(llm: ScriptedLlm) -> None:
    llm.reads(0)
    asked = [SYSTEM, *turns(30), NEWEST]
    truncation = {"post_instructions": 600}
    tries = answer(llm, asked, truncation=truncation)[2]
    assert len(tries) == 1
    assert 2 + 2 * 4 <= len(tries[0]) <= 2 + 2 * 6


@pytest.mark.parametrize("server", SERVERS)
def test_a_newest_turn_that_the_model_does_not_read_is_refused(
    llm: ScriptedLlm, server: str
) -> None:
    llm.reads(1000, server)
    long = {"role": "user", "content": "x" * 8000}
    before = len(llm.asked())
    with pytest.raises(ContextLengthError, match="refused") as caught:
        answer(llm, [SYSTEM, *turns(30), long], truncation={})
    assert caught.value.code == "context_length_exceeded"
    assert "127.0.0.1" not in caught.value.message
    tries = [body["messages"] for body in llm.asked()[before:]]
    assert len(tries) <= MAX_TRIES
    assert tries[-1] == [SYSTEM, long]


@pytest.mark.parametrize("server", SERVERS)
def test_without_truncation_the_model_is_asked_once(llm: ScriptedLlm, server: str) -> None:
    llm.reads(1000, server)
    before = len(llm.asked())
    with pytest.raises(ContextLengthError):
        answer(llm, [SYSTEM, *turns(30), NEWEST])
    assert len(llm.asked()) == before + 1


def test_other_refusals_are_not_tried_again(llm: ScriptedLlm) -> None:
    llm.reads(0)
    before = len(llm.asked())
    with pytest.raises(InvalidRequestError) as caught:
        answer(llm, [*turns(3), {"role": "user", "content": "status 400"}], truncation={})
    assert caught.value.code == "invalid_value"
    assert len(llm.asked()) == before + 1


def test_calls_count_and_go_with_their_results(llm: ScriptedLlm) -> None:
    llm.reads(1000, "openai")
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    steps: list[dict[str, Any]] = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "y" * 400},
    ]
    sent = answer(llm, [SYSTEM, NEWEST, *steps * 20], truncation={})[2][-1]
    assert sent[:2] == [SYSTEM, NEWEST]
    assert [message["role"] for message in sent[2:]] == ["assistant", "tool"] * (len(sent) // 2 - 1)
    assert 3 <= len(sent[2:]) // 2 < 10
