"""A miniature of the training: it learns, repeats itself, and goes on where it was stopped."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from engine.errors import ConfigError
from tests.worker.models.hibari_talker.train.lessons import lessons
from worker.models.hibari_talker.train.fit import Fit, Schedule
from worker.models.hibari_talker.train.net import Shape

pytestmark = [pytest.mark.torch, pytest.mark.model]

SMALL = Shape(num_layers=2, hidden_size=64, intermediate_size=96, num_heads=2, head_dim=32)
SCHEDULE = Schedule(
    num_steps=30,
    num_warm_up=3,
    num_decay=5,
    batch_tokens=800,
    learning_rate=1e-2,
    save_every=10,
    score_every=30,
    num_held_out=2,
)


def fit(folder: Path, schedule: Schedule = SCHEDULE, until: int | None = None) -> Fit:
    fitted = Fit(lessons(), folder, schedule, SMALL)
    fitted.run(until)
    return fitted


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Fit:
    return fit(tmp_path_factory.mktemp("whole"))


def test_the_loss_falls(whole: Fit, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(whole.losses) == SCHEDULE.num_steps
    assert sum(whole.losses[-5:]) < 0.8 * sum(whole.losses[:5])
    assert 0 <= whole.score(2).duration_exact <= 1


def test_the_same_seed_gives_the_same_weights_after_a_stop(whole: Fit, tmp_path: Path) -> None:
    fit(tmp_path, until=13)
    again = fit(tmp_path)
    assert again.losses == whole.losses
    for name, weight in whole.weights.items():
        assert torch.equal(weight, again.weights[name])


def test_another_seed_gives_other_weights(whole: Fit, tmp_path: Path) -> None:
    other = fit(tmp_path, replace(SCHEDULE, seed=1), until=2)
    assert other.losses != whole.losses[:2]


@pytest.mark.parametrize("changes", [{"seed": 1}, {"num_steps": 40}])
def test_a_checkpoint_of_something_else_is_not_gone_on_with(
    tmp_path: Path, changes: dict[str, int]
) -> None:
    fit(tmp_path, until=1)
    ((name, value),) = changes.items()
    with pytest.raises(ConfigError, match=rf"was made with {name} \d+, not {value}: remove it"):
        fit(tmp_path, replace(SCHEDULE, **changes))


def test_too_few_lessons_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="20 lessons are too few: 20 are held out"):
        fit(tmp_path, replace(SCHEDULE, num_held_out=20))


def test_weights_are_written_in_the_size_that_is_shipped(whole: Fit, tmp_path: Path) -> None:
    whole.export(tmp_path)
    num_weights = sum(weight.numel() for weight in whole.weights.values())
    size = (tmp_path / "model.safetensors").stat().st_size
    assert 2 * num_weights < size < 2 * num_weights + 10_000


def test_the_rate_rises_stays_and_falls() -> None:
    rates = [SCHEDULE.rate_at(step) for step in range(SCHEDULE.num_steps)]
    assert rates[:3] == sorted(rates[:3])
    assert rates[3:26] == [SCHEDULE.learning_rate] * 23
    assert rates[25:] == sorted(rates[25:], reverse=True)
    assert rates[-1] > 0
