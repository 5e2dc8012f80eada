"""Passages that are held to a grammar, on a real vLLM in this process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.worker.models.thinker.tiny_chat import tiny_tokenizer, write_tiny_chat
from tests.worker.vllm.pipelines import tiny_llm
from tests.worker.vllm.running_vllm import Ignoring, Vllm, running_vllm
from worker.vllm.adapter import Passage, Row
from worker.vllm.sampling import TokenSampling
from worker.vllm.token_engine import Submission, TokenEngine

pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("default")]

SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"enum": ["Bern", "Bonn", "Rome"]},
        "code": {"type": "string", "pattern": "^[a-f]{12}$"},
        "is_far": {"type": "boolean"},
    },
    "required": ["city", "code", "is_far"],
    "additionalProperties": False,
}
EXACT = {"x-guidance": {"whitespace_flexible": False}}
GRAMMAR = f'start: "say " %json {json.dumps(SCHEMA | EXACT)}\n'


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vllm]:
    checkpoint = write_tiny_chat(tmp_path_factory.mktemp("chat"))
    with running_vllm(tiny_llm(checkpoint, tokenizer=str(checkpoint))) as running:
        yield running


async def decode(engine: TokenEngine, prefix: list[int], **sampling: Any) -> list[int]:
    prompt = tiny_tokenizer().encode("Where?", add_special_tokens=False)
    asked = TokenSampling(max_tokens=120, grammar=GRAMMAR, **sampling)
    passage = Passage(number=0, rows=(Row(None, prompt),), sampling=asked, sink=Ignoring())
    decoding = await engine.submit(Submission("r", passage, seed=1, prefix=prefix))
    tokens = list[int]()
    while (new := await decoding.next()).finish_reason is None:
        tokens += new.token_ids
    assert new.finish_reason == "stop"
    return tokens + new.token_ids


def check_form(token_ids: list[int]) -> None:
    text = tiny_tokenizer().decode(token_ids, skip_special_tokens=True)
    assert text.startswith("say {")
    answer = json.loads(text.removeprefix("say "))
    assert list(answer) == ["city", "code", "is_far"]
    assert answer["city"] in ("Bern", "Bonn", "Rome")
    assert len(answer["code"]) == 12


def test_a_passage_that_is_gone_on_with_keeps_its_form(started: Vllm) -> None:
    """What it had decides what may come: greedy, it is the same as if nothing had been lost."""

    async def scenario() -> None:
        whole = await decode(started.engine, [], temperature=0.0)
        check_form(whole)
        for num_had in (1, 4, 20, len(whole) - 2):
            rest = await decode(started.engine, whole[:num_had], temperature=0.0)
            assert rest == whole[num_had:]
            drawn = await decode(started.engine, whole[:num_had], temperature=1.5)
            check_form(whole[:num_had] + drawn)

    started.run(scenario())


def test_passages_at_different_places_of_a_form_share_a_batch(started: Vllm) -> None:
    async def scenario() -> None:
        whole = await decode(started.engine, [], temperature=0.0)
        parts = [decode(started.engine, whole[:n], temperature=0.0) for n in range(0, 30, 3)]
        for num_had, rest in zip(range(0, 30, 3), await asyncio.gather(*parts), strict=True):
            assert rest == whole[num_had:]

    started.run(scenario())
