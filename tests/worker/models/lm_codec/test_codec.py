"""Where a codec runs, and how exactly."""

from __future__ import annotations

import pytest
import torch

from engine.errors import ConfigError
from worker.models.lm_codec.codec import pick_device

pytestmark = pytest.mark.torch


def test_convolutions_in_float32_are_not_rounded_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    pick_device("auto")
    assert not torch.backends.cudnn.allow_tf32


@pytest.mark.parametrize("name", ["gpu", "cuda:x"])
def test_an_unknown_device_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(ConfigError, match=f"auto, cpu, cuda or cuda:N, got '{name}'"):
        pick_device(name)


@pytest.mark.parametrize("fraction", [0.0, -0.5, 1.01, float("nan")])
def test_more_memory_than_a_gpu_has_or_none_is_refused(fraction: float) -> None:
    with pytest.raises(ConfigError, match="gpu_memory_fraction must be above 0 and at most 1"):
        pick_device("cpu", fraction)


@pytest.mark.parametrize(
    ("name", "fraction", "wanted"),
    [
        ("auto", 0.25, [(0.25, None)]),
        ("cuda", 0.25, [(0.25, None)]),
        ("cuda:1", 0.5, [(0.5, 1)]),
        ("cuda:1", 1.0, []),
        ("cpu", 0.25, []),
    ],
)
def test_torch_is_told_the_bound_of_the_gpu_that_was_picked(
    name: str,
    fraction: float,
    wanted: list[tuple[float, int | None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[tuple[float, int | None]] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(
        torch.cuda, "set_per_process_memory_fraction", lambda *bound: told.append(bound)
    )
    pick_device(name, fraction)
    assert told == wanted
