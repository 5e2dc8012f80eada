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

from engine.errors import ConfigError
from worker.models.hibari_talker.train.batches import Batch, draw, plan
from worker.models.hibari_talker.train.net import Net, Shape, new_weights, save_weights
from worker.models.hibari_talker.train.score import Score, score_neutral
from worker.models.hibari_talker.train.teacher import Lessons


@dataclass(frozen=True, slots=True)
class Schedule:
    """How long and how fast to learn.

    The learning rate rises over ``num_warm_up`` steps, stays, and falls to zero over the last
    ``num_decay`` ones. Matrices learn with Muon (Jordan 2024: orthogonalised momentum, here scaled
    to AdamW's usual step), embeddings and norms with AdamW.
    """

    num_steps: int = 1600
    num_warm_up: int = 100
    num_decay: int = 600
    batch_tokens: int = 3000
    learning_rate: float = 2.5e-3
    weight_decay: float = 0.05
    seed: int = 0
    save_every: int = 100
    score_every: int = 200
    num_held_out: int = 400

    def rate_at(self, step: int) -> float:
        """Learning rate of a step, counted from 0."""
        rise = min(1.0, (step + 1) / self.num_warm_up)
        fall = min(1.0, (self.num_steps - step) / max(1, self.num_decay))
        return self.learning_rate * rise * fall


class Fit:
    """Training that can be stopped after any step and goes on from its last checkpoint.

    Raises ``ConfigError`` for a checkpoint of another schedule or seed, and for too few lessons.

    The model computes in bfloat16; ``_masters`` are its weights in float32, which are updated.
    """

    def __init__(self, lessons: Lessons, folder: Path, schedule: Schedule, shape: Shape) -> None:
        torch.set_num_threads(1)
        self._lessons, self._held_out = split_lessons(lessons, schedule.num_held_out)
        self._folder = folder
        self._schedule = schedule
        self._shape = shape
        self._masters = new_weights(shape, schedule.seed)
        self._weights = {
            name: master.bfloat16().requires_grad_() for name, master in self._masters.items()
        }
        self.net = Net(self._weights, shape)
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
        return score_neutral(self.net, [self._held_out[index] for index in range(count)])

    @property
    def weights(self) -> dict[str, torch.Tensor]:
        """The weights in float32."""
        return self._masters

    def export(self, folder: Path) -> None:
        """Write the weights as Hugging Face has them: config.json and model.safetensors."""
        save_weights(self._masters, self._shape, folder)

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
        loss = self.net.loss(batch)
        torch.autograd.backward(loss)
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
        made, asked = json.loads(state["schedule"]), asdict(self._schedule)
        if changed := [name for name in asked if made.get(name) != asked[name]]:
            name = changed[0]
            raise ConfigError(
                f"{path} was made with {name} {made.get(name)}, not {asked[name]}: remove it, or "
                "take another folder"
            )
        self.step, self.losses = state["step"], state["losses"]
        with torch.no_grad():
            for name, master in self._masters.items():
                master.copy_(state["masters"][name])
        for optimizer, saved in zip(self._optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        self._copy_to_model()
        report(f"going on from step {self.step}")


def split_lessons(lessons: Lessons, num_held_out: int) -> tuple[Lessons, Lessons]:
    """All but the last sentences, to learn from, and the last ones, to score.

    Raises ``ConfigError`` if none is left to learn from.
    """
    first = len(lessons) - num_held_out
    if first < 1:
        raise ConfigError(
            f"{len(lessons)} lessons are too few: {num_held_out} are held out to score the others"
        )
    kept = [lessons[index] for index in range(first)]
    held_out = [lessons[index] for index in range(first, len(lessons))]
    return Lessons.join(kept), Lessons.join(held_out)


def report(line: str) -> None:
    """Tell how training goes."""
    print(line, file=sys.stderr, flush=True)
