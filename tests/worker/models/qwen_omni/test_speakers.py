"""Speakers are read from the checkpoint's own file, and found by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from engine.errors import ConfigError, InvalidRequestError
from worker.models.qwen_omni.speakers import find_speaker, load_speakers

pytestmark = pytest.mark.torch

PARTS = {"bos_token": 5, "cond": torch.ones(1, 4), "ref_mel": torch.zeros(1, 3, 2)}


def write(folder: Path, content: Any) -> str:
    torch.save(content, folder / "spk_dict.pt")
    return str(folder)


def test_speakers_keep_their_order_and_their_parts(tmp_path: Path) -> None:
    halved = {**PARTS, "bos_token": 9, "cond": torch.ones(1, 4).half()}
    speakers = load_speakers(write(tmp_path, {"Zoe": PARTS, "Adam": halved}))
    assert list(speakers) == ["Zoe", "Adam"]
    assert speakers["Adam"].bos_token == 9
    assert speakers["Adam"].conditioning.dtype == torch.float32


@pytest.mark.parametrize(
    "content", [{"Zoe": {"cond": PARTS["cond"]}}, ["Zoe"], {"Zoe": {**PARTS, "cond": 3}}]
)
def test_a_file_of_something_else_is_refused(tmp_path: Path, content: Any) -> None:
    with pytest.raises(ConfigError, match="cannot read the speakers of"):
        load_speakers(write(tmp_path, content))


def test_a_checkpoint_without_speakers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read the speakers of .* no spk_dict.pt"):
        load_speakers(str(tmp_path))


def test_names_are_found_whatever_their_case() -> None:
    assert find_speaker("zoe", ["Zoe", "Adam"]) == "Zoe"
    assert find_speaker(None, ["Zoe", "Adam"]) == "Zoe"
    for asked in ("Eve", 3, ["Zoe"]):
        with pytest.raises(InvalidRequestError, match="voice must be one of Zoe, Adam, got"):
            find_speaker(asked, ["Zoe", "Adam"])
