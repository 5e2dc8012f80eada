"""Answers that lose their place in a small cache, and read all they had anew, tell it once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from tests.worker.models.qwen_omni.noises import message
from tests.worker.models.qwen_omni.omni_pipelines import listened, small_omni
from tests.worker.models.qwen_omni.references import inputs_of, load_reference
from tests.worker.models.qwen_omni.test_thinker import LAYERS, TOLERANCE, Omni, ask
from tests.worker.models.qwen_omni.tiny_omni import CHECKPOINTS
from tests.worker.vllm.engines import preemptions, running_engine
from worker.models.qwen_omni.thought import Thought

pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("default")]

# Two prompts fit, and not what is written behind them: one block is vLLM's own.
NUM_BLOCKS = 10
NUM_ANSWERS, NUM_TOKENS = 6, 70


@pytest.fixture(scope="module", params=CHECKPOINTS)
def omni(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Omni]:
    folder = CHECKPOINTS[request.param](tmp_path_factory.mktemp("omni"))
    small = small_omni(
        request.param, folder, max_model_len=256, block_size=32, num_kv_blocks=NUM_BLOCKS
    )
    with running_engine(listened(small)) as engine:
        yield Omni(engine, folder, LAYERS[request.param])


def question(number: int) -> list[Any]:
    return message(f"Count from {number} on, please.")


@torch.inference_mode()
def check(omni: Omni, number: int, thoughts: list[Thought], num_tokens: int) -> None:
    """Each position once, with what one pass of transformers over the same tokens has there."""
    inputs = inputs_of(omni.folder, question(number))
    prompt = inputs["input_ids"][0].tolist()
    ids = np.concatenate([thought.token_ids for thought in thoughts])
    assert ids[: len(prompt)].tolist() == prompt
    assert len(ids) == len(prompt) + num_tokens - 1
    assert [thought.is_prompt for thought in thoughts] == [True] + [False] * (len(thoughts) - 1)
    assert thoughts[0].num_rows == len(prompt)
    assert [thought.is_last for thought in thoughts] == [False] * (len(thoughts) - 1) + [True]
    told = torch.from_numpy(ids)[None]
    states = (
        load_reference(omni.folder)
        .thinker(input_ids=told, attention_mask=torch.ones_like(told), output_hidden_states=True)
        .hidden_states
    )
    for name, wanted in (("embeddings", states[0]), ("hidden", states[omni.layer])):
        got = np.concatenate([getattr(thought, name) for thought in thoughts])
        np.testing.assert_allclose(got, wanted[0].numpy(), rtol=0, atol=TOLERANCE)


def test_states_are_told_once_though_rows_are_preempted(omni: Omni) -> None:
    """Rounds go on until vLLM says that it has preempted; all of them are checked."""

    async def one_round(number: int) -> list[Any]:
        asked = [
            ask(omni.running, f"{number}.{i}", question(i), NUM_TOKENS) for i in range(NUM_ANSWERS)
        ]
        return list(await asyncio.gather(*asked))

    async def until_preempted() -> list[list[Any]]:
        rounds = [await one_round(0)]
        while preemptions(omni.running.engine) == 0:
            rounds.append(await one_round(len(rounds)))
        return rounds

    for answers in omni.running.run(until_preempted()):
        for i, (thoughts, said) in enumerate(answers):
            check(omni, i, thoughts, said["usage"]["completion_tokens"])
