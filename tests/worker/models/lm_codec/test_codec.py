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
