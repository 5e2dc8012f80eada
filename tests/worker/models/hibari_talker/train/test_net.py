"""The net that is trained computes what transformers' Qwen3 computes from its saved weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.worker.models.hibari_talker.train.lessons import lessons
from worker.models.hibari_talker.tokens import build_prompt
from worker.models.hibari_talker.train.batches import collate
from worker.models.hibari_talker.train.draws import answers
from worker.models.hibari_talker.train.net import Net, Shape, new_weights, save_weights
from worker.models.hibari_talker.train.score import compare

pytestmark = [pytest.mark.torch, pytest.mark.model]

SMALL = Shape(num_layers=2, hidden_size=64, intermediate_size=96, num_heads=4, head_dim=16)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("weights")
    save_weights(new_weights(SMALL, 1), SMALL, path)
    return path


@pytest.fixture(scope="module")
def reference(folder: Path) -> Any:
    from transformers import Qwen3ForCausalLM

    return Qwen3ForCausalLM.from_pretrained(folder, dtype=torch.float32)


def test_shared_phonemes_give_the_logits_of_each_answer_alone(reference: Any) -> None:
    weights = {n: w.bfloat16().float() for n, w in new_weights(SMALL, 1).items()}
    chosen = [lessons()[0], lessons()[5]]
    drawn = [answers(lesson, np.random.default_rng(2)) for lesson in chosen]
    logits = Net(weights, SMALL).logits(collate(chosen, drawn))
    for row, (lesson, ways) in enumerate(zip(chosen, drawn, strict=True)):
        for number, way in enumerate(ways):
            prompt = build_prompt([int(i) for i in lesson.ids], way.style)
            tokens = torch.tensor([[*prompt, *way.tokens[:-1].tolist()]])
            with torch.no_grad():
                wanted = reference(input_ids=tokens).logits[0, len(prompt) - 1 :]
            got = logits[row, number, : lesson.ids.size]
            assert torch.allclose(got, wanted, atol=1e-5)


def test_gradients_are_those_of_the_reference(reference: Any) -> None:
    weights = {
        name: weight.bfloat16().float().requires_grad_()
        for name, weight in new_weights(SMALL, 1).items()
    }
    lesson = lessons()[1]
    way = answers(lesson, np.random.default_rng(1))[1]
    torch.autograd.backward(Net(weights, SMALL).loss(collate([lesson], [[way]])))
    prompt = build_prompt([int(i) for i in lesson.ids], way.style)
    tokens = torch.tensor([[*prompt, *way.tokens[:-1].tolist()]])
    logits = reference(input_ids=tokens).logits[0, len(prompt) - 1 :]
    reference.zero_grad()
    torch.autograd.backward(torch.nn.functional.cross_entropy(logits, torch.from_numpy(way.tokens)))
    for name, parameter in reference.named_parameters():
        grad = weights[name].grad
        assert grad is not None
        assert torch.allclose(grad, parameter.grad, atol=1e-4 * float(parameter.grad.abs().max()))


def test_a_score_counts_what_is_right() -> None:
    right = np.array([200 + 32 * 2 + 10, 200 + 32 * 3, 200 + 32 * 4 + 12])
    assert str(compare(right, right)).startswith("durations exact 1.000")
    score = compare(right + np.array([2, 32, 0]), right)
    assert score.duration_exact == pytest.approx(2 / 3)
    assert score.duration_near == 1.0
    assert score.voicing_right == 1.0
    assert score.pitch_distance_st == pytest.approx(1.0)
