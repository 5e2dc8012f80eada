"""Guidance with a model whose layers differ in how far they look back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.errors import StageFailedError
from tests.worker.vllm.engines import RunningEngine, preemptions, running_engine, tokens_of
from tests.worker.vllm.pipelines import spelled
from tests.worker.vllm.test_guided_stage import SCALE, check_greedy
from tests.worker.vllm.tiny_model import write_sliding_model

pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("default")]

# Blocks of 32 tokens, three for each: a row of 64 tokens takes 6, and one pair of two takes 12.
FEW_BLOCKS = 20


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_sliding_model(tmp_path_factory.mktemp("sliding"))


@pytest.fixture(scope="module")
def running(checkpoint: Path) -> Iterator[RunningEngine]:
    with running_engine(spelled(checkpoint, num_kv_blocks=FEW_BLOCKS)) as engine:
        yield engine


def test_guided_tokens_equal_the_two_pass_loop_though_groups_are_preempted(
    running: RunningEngine, checkpoint: Path
) -> None:
    jobs = [(f"g{i}", f"{10 + i} words. and {i}", SCALE) for i in range(16)]
    solos = [(f"s{i}", f"alone {i}", None) for i in range(6)]

    async def scenario() -> list[list[int]]:
        return await asyncio.gather(*(tokens_of(running.engine, *job) for job in [*jobs, *solos]))

    for (_, text, scale), tokens in zip([*jobs, *solos], running.run(scenario()), strict=True):
        check_greedy(checkpoint, text, scale, tokens)

    async def until_preempted() -> None:
        while preemptions(running.engine) == 0:
            more = [tokens_of(running.engine, f"p{i}", f"20 words {i}", SCALE) for i in range(8)]
            await asyncio.gather(*more)

    running.run(until_preempted())


def test_a_pair_that_no_cache_of_this_size_holds_is_refused_and_harms_nobody(
    running: RunningEngine, checkpoint: Path
) -> None:
    """Its rows of up to 124 tokens take 4 blocks in each of three groups."""

    async def scenario() -> list[int]:
        good = asyncio.create_task(tokens_of(running.engine, "good", "good", SCALE))
        with pytest.raises(StageFailedError, match=r"cache of 25 blocks; this stage has .* 20"):
            await tokens_of(running.engine, "bad", "100 words", SCALE)
        await tokens_of(running.engine, "solo", "100 words")
        return await good

    check_greedy(checkpoint, "good", SCALE, running.run(scenario()))
