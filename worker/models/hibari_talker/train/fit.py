"""Fits the talker: Qwen3 in torch, on one thread, the same weights from the same seed."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional
from transformers import Qwen3Config, Qwen3ForCausalLM

from worker.models.hibari_talker.tokens import AXES, MAX_LENGTH, VOCABULARY
from worker.models.hibari_talker.train.batches import Batch, draw, plan
from worker.models.hibari_talker.train.score import Score, score_neutral
from worker.models.hibari_talker.train.teacher import Lessons


@dataclass(frozen=True, slots=True)
class Shape:
    """Size of the model. The shipped one has 2.6 million weights: 5.3 MB in bfloat16."""

    num_layers: int = 4
    hidden_size: int = 256
    intermediate_size: int = 512
    num_heads: int = 4
    num_key_value_heads: int = 2
    head_dim: int = 64


@dataclass(frozen=True, slots=True)
class Schedule:
    """How long and how fast to learn.

    The learning rate rises over ``num_warm_up`` steps, stays, and falls to zero over the last
    ``num_decay`` ones. Matrices learn with Muon (Jordan 2024: orthogonalised momentum, here scaled
    to AdamW's usual step), embeddings and norms with AdamW.
    """

    num_steps: int = 2400
    num_warm_up: int = 60
    num_decay: int = 900
    batch_tokens: int = 6000
    learning_rate: float = 3e-3
    weight_decay: float = 0.05
    seed: int = 0
    save_every: int = 100
    score_every: int = 300
    num_held_out: int = 400

    def rate_at(self, step: int) -> float:
        """Learning rate of a step, counted from 0."""
        rise = min(1.0, (step + 1) / self.num_warm_up)
        fall = min(1.0, (self.num_steps - step) / max(1, self.num_decay))
        return self.learning_rate * rise * fall


def build_model(shape: Shape, seed: int) -> Qwen3ForCausalLM:
    """A model with random weights."""
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=shape.hidden_size,
        intermediate_size=shape.intermediate_size,
        num_hidden_layers=shape.num_layers,
        num_attention_heads=shape.num_heads,
        num_key_value_heads=shape.num_key_value_heads,
        head_dim=shape.head_dim,
        max_position_embeddings=MAX_LENGTH,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
        # Twice as fast to train as torch's fused attention at these sizes, on a CPU.
        attn_implementation="eager",
    )
    return Qwen3ForCausalLM(config)


class Fit:
    """Training that can be stopped after any step and goes on from its last checkpoint.

    The model computes in bfloat16; ``_masters`` are its weights in float32, which are updated.
    """

    def __init__(self, lessons: Lessons, folder: Path, schedule: Schedule, shape: Shape) -> None:
        torch.set_num_threads(1)
        self._lessons, self._held_out = split_lessons(lessons, schedule.num_held_out)
        self._folder = folder
        self._schedule = schedule
        self.model = build_model(shape, schedule.seed).bfloat16()
        self._weights = dict(self.model.named_parameters())
        self._masters = {name: each.detach().float() for name, each in self._weights.items()}
        self._optimizers = self._build_optimizers()
        self.step = 0
        self.losses: list[float] = []
        self._resume()

    def run(self, until: int | None = None) -> None:
        """Train until the end of the schedule, or step ``until``; progress goes to stderr."""
        last = min(until or self._schedule.num_steps, self._schedule.num_steps)
        batches = self._batches()
        started = time.monotonic()
        while self.step < last:
            self.losses.append(self._learn(next(batches)))
            self.step += 1
            if self.step % 20 == 0:
                loss = float(np.mean(self.losses[-20:]))
                report(
                    f"step {self.step} of {self._schedule.num_steps}: loss {loss:.3f}, "
                    f"{time.monotonic() - started:.0f} s"
                )
            if self.step % self._schedule.score_every == 0 or self.step == self._schedule.num_steps:
                report(f"step {self.step}: {self.score()}")
            if self.step % self._schedule.save_every == 0 or self.step == last:
                self._save()

    def score(self, num_sentences: int = 100) -> Score:
        """How well the model speaks held-out sentences in the teacher's own way."""
        count = min(num_sentences, len(self._held_out))
        return score_neutral(self.model, [self._held_out[index] for index in range(count)])

    def export(self, folder: Path) -> None:
        """Write the weights as Hugging Face has them: config.json and model.safetensors."""
        self.model.save_pretrained(folder)

    def _batches(self) -> Iterator[Batch]:
        """The batches from the current step on: functions of the seed and the step alone."""
        seed, first = self._schedule.seed, 0
        for epoch in range(self._schedule.num_steps):
            rng = np.random.default_rng([seed, 1, epoch])
            batches = plan(self._lessons, self._schedule.batch_tokens, rng)
            for step, indices in enumerate(batches, first):
                if step >= self.step:
                    yield draw(self._lessons, indices, np.random.default_rng([seed, 2, step]))
            first += len(batches)

    def _learn(self, batch: Batch) -> float:
        loss = batch_loss(self.model, batch)
        loss.backward()
        for name, master in self._masters.items():
            grad = self._weights[name].grad
            assert grad is not None
            master.grad = grad.float()
            self._weights[name].grad = None
        torch.nn.utils.clip_grad_norm_(self._masters.values(), 1.0)
        rate = self._schedule.rate_at(self.step)
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.step()
        self._copy_to_model()
        return float(loss.detach())

    def _copy_to_model(self) -> None:
        with torch.no_grad():
            for name, master in self._masters.items():
                self._weights[name].copy_(master)

    def _build_optimizers(self) -> list[torch.optim.Optimizer]:
        matrices = [m for name, m in self._masters.items() if m.ndim == 2 and "embed" not in name]
        others = [m for name, m in self._masters.items() if m.ndim != 2 or "embed" in name]
        rate, decay = self._schedule.learning_rate, self._schedule.weight_decay
        return [
            torch.optim.Muon(matrices, lr=rate, weight_decay=decay, adjust_lr_fn="match_rms_adamw"),
            torch.optim.AdamW(others, lr=rate, weight_decay=0.0, betas=(0.9, 0.95)),
        ]

    def _save(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        state = {
            "schedule": json.dumps(asdict(self._schedule)),
            "step": self.step,
            "losses": self.losses,
            "masters": self._masters,
            "optimizers": [optimizer.state_dict() for optimizer in self._optimizers],
        }
        partial = self._folder / "checkpoint.partial"
        torch.save(state, partial)
        partial.replace(self._folder / "checkpoint.pt")

    def _resume(self) -> None:
        path = self._folder / "checkpoint.pt"
        if not path.exists():
            return
        state: dict[str, Any] = torch.load(path, weights_only=True)
        self.step, self.losses = state["step"], state["losses"]
        with torch.no_grad():
            for name, master in self._masters.items():
                master.copy_(state["masters"][name])
        for optimizer, saved in zip(self._optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        self._copy_to_model()
        report(f"going on from step {self.step}")


def batch_loss(model: Qwen3ForCausalLM, batch: Batch) -> torch.Tensor:
    """Mean cross entropy of the answers' tokens."""
    tokens = torch.from_numpy(batch.tokens)
    visible = torch.from_numpy(batch.visible())
    mask = torch.zeros(visible.shape, dtype=torch.bfloat16)
    mask.masked_fill_(~visible, torch.finfo(torch.bfloat16).min)
    positions = torch.from_numpy(batch.positions())[None]
    hidden = model.model(
        input_ids=tokens, attention_mask=mask[None, None], position_ids=positions, use_cache=False
    ).last_hidden_state
    targets = torch.from_numpy(batch.targets)
    tails = hidden[:, batch.num_prefix :].unflatten(1, (targets.shape[1], batch.num_tail))
    logits = model.lm_head(tails[:, :, len(AXES) :]).float()
    return functional.cross_entropy(logits.flatten(0, 2), targets.flatten())


def split_lessons(lessons: Lessons, num_held_out: int) -> tuple[Lessons, Lessons]:
    """All but the last sentences, to learn from, and the last ones, to score."""
    first = len(lessons) - num_held_out
    kept = [lessons[index] for index in range(first)]
    held_out = [lessons[index] for index in range(first, len(lessons))]
    return Lessons.join(kept), Lessons.join(held_out)


def report(line: str) -> None:
    """Tell how training goes."""
    print(line, file=sys.stderr, flush=True)
