"""Passages on a real vLLM in this process: what is refused, and what a cancellation leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.errors import StageFailedError
from tests.worker.vllm.cache_specs import config_of, spec_of
from tests.worker.vllm.pipelines import tiny_llm
from tests.worker.vllm.running_vllm import Ignoring, Vllm, running_vllm
from tests.worker.vllm.tiny_model import (
    find_mismatches,
    load_reference,
    prompt_of,
    write_tiny_model,
)
from worker.vllm.adapter import Passage, Row
from worker.vllm.cache_layout import CacheLayout
from worker.vllm.sampling import TokenSampling
from worker.vllm.token_engine import Submission, TokenEngine

pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("default")]

# Room for one pair of rows of up to 64 tokens, in blocks of 32; vLLM keeps one block for itself.
FEW_BLOCKS = 6
SCALE = 3.0


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def started(checkpoint: Path) -> Iterator[Vllm]:
    with running_vllm(tiny_llm(checkpoint, num_kv_blocks=FEW_BLOCKS)) as running:
        yield running


def pair(length: int, num_tokens: int) -> Passage:
    rows = [Row(role, prompt_of(number, length)) for number, role in enumerate((None, "free"))]
    sampling = TokenSampling(max_tokens=num_tokens, temperature=0.0, ignore_eos=True)
    return Passage(
        number=0, rows=tuple(rows), sampling=sampling, sink=Ignoring(), guidance_scale=SCALE
    )


async def decode(engine: TokenEngine, passage: Passage) -> list[int]:
    decoding = await engine.submit(Submission("r", passage, seed=1))
    tokens = list[int]()
    while (new := await decoding.next()).finish_reason is None:
        tokens += new.token_ids
    return tokens + new.token_ids


def check_decodes(started: Vllm, checkpoint: Path) -> None:
    tokens = started.run(decode(started.engine, pair(20, 30)))
    prompts = prompt_of(0, 20), prompt_of(1, 20)
    assert len(tokens) == 30
    assert find_mismatches(load_reference(checkpoint), *prompts, SCALE, tokens) == []


@pytest.mark.parametrize("num_rows_in", [1, 2])
def test_a_passage_that_is_cancelled_on_its_way_in_leaves_no_row_in_vllm(
    started: Vllm, checkpoint: Path, monkeypatch: pytest.MonkeyPatch, num_rows_in: int
) -> None:
    core = started.vllm.engine_core
    add, abort = core.add_request_async, core.abort_requests_async
    added, aborted = list[str](), list[str]()

    async def scenario() -> None:
        is_in = asyncio.Event()

        async def stuck_add(request: Any) -> None:
            await add(request)
            added.append(request.request_id)
            if len(added) == num_rows_in:
                is_in.set()
                await asyncio.Event().wait()

        async def noted_abort(request_ids: list[str]) -> None:
            aborted.extend(request_ids)
            await abort(request_ids)

        monkeypatch.setattr(core, "add_request_async", stuck_add)
        monkeypatch.setattr(core, "abort_requests_async", noted_abort)
        submitting = asyncio.create_task(started.engine.submit(Submission("r", pair(20, 9), 1)))
        await is_in.wait()
        submitting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await submitting

    started.run(scenario())
    monkeypatch.undo()
    assert sorted(aborted) == sorted(added)
    assert started.vllm.output_processor.get_num_unfinished_requests() == 0
    check_decodes(started, checkpoint)


def test_a_pair_that_could_never_be_held_whole_is_refused(started: Vllm, checkpoint: Path) -> None:
    with pytest.raises(StageFailedError, match=r"of up to 140 tokens .* of 7 blocks; .* 6$"):
        started.run(decode(started.engine, pair(40, 30)))
    check_decodes(started, checkpoint)


def test_a_passage_of_three_rows_is_refused(started: Vllm) -> None:
    two = pair(10, 5)
    rows = (*two.rows, Row("third", prompt_of(2, 10)))
    three = Passage(number=0, rows=rows, sampling=two.sampling, sink=two.sink)
    with pytest.raises(StageFailedError, match="at most one more, got roles"):
        started.run(decode(started.engine, three))


def test_guidance_is_refused_where_blocks_cannot_be_counted(
    started: Vllm, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model with Mamba layers, as vLLM describes its cache; one row by itself is none the less
    decoded."""
    two = pair(20, 30)
    alone = Passage(number=0, rows=two.rows[:1], sampling=two.sampling, sink=two.sink)
    layout = CacheLayout.of(config_of(spec_of("FullAttentionSpec"), spec_of("MambaSpec")))
    monkeypatch.setattr(started.engine, "_layout", layout)
    with pytest.raises(StageFailedError, match="keys and values of tokens; this one has MambaSpec"):
        started.run(decode(started.engine, two))
    assert len(started.run(decode(started.engine, alone))) == 30
    monkeypatch.undo()
    check_decodes(started, checkpoint)
