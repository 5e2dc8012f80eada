"""Where a codec runs, how exactly, and what is said of one that cannot be loaded."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from engine.errors import ConfigError
from tests.worker.models.lm_codec.codecs import save_snac
from tests.worker.models.lm_codec.describing import of_kind
from worker.models.lm_codec.codec import load_codec, pick_device

pytestmark = pytest.mark.torch

CPU = torch.device("cpu")


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


def _of_another_shape(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"decoder_dim": 64}))


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda folder: (folder / "pytorch_model.bin").write_bytes(b""), "EOFError"),
        (lambda folder: (folder / "pytorch_model.bin").write_bytes(b"PK"), "."),
        (lambda folder: (folder / "config.json").write_text("{"), "."),
        (_of_another_shape, "size mismatch"),
    ],
)
def test_a_codec_that_is_broken_is_one_clear_sentence(
    tmp_path: Path, spoil: Callable[[Path], object], reason: str
) -> None:
    spoil(save_snac(tmp_path))
    spec = of_kind("snac", tmp_path, left=3, right=3).codec
    with pytest.raises(ConfigError, match=rf"cannot load codec .* \(snac\): .*{reason}") as caught:
        load_codec(spec, (1, 2, 4), CPU)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("kind", ["snac", "dac", "xcodec2"])
def test_a_folder_that_is_not_there_is_said_to_be_missing(tmp_path: Path, kind: str) -> None:
    spec = of_kind(kind, tmp_path / "nowhere", left=3, right=3).codec
    with pytest.raises(ConfigError, match=r"codec\.model: there is no folder .*nowhere"):
        load_codec(spec, (1,), CPU)
