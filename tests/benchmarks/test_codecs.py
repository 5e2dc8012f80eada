"""The codec stages beside their codecs, whole, in quick mode."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.codec_subjects import KINDS

pytestmark = pytest.mark.torch

# Of full scale: a window of these holds all that its core depends on.
EXACT = ("SNAC (Orpheus)", "DAC (OuteTTS)", "Mimi, 8 codebooks", "Qwen3-Omni")


def test_each_stage_makes_the_sound_of_its_codec_and_is_timed_beside_it(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    assert main(["codecs", "--quick", "--out", str(out)]) == 0
    (report,) = json.loads(out.read_text())
    assert [figure["name"] for figure in report["figures"]] == [
        f"{name}, 2 at once: {measure}"
        for name in KINDS
        for measure in ("sound per second", "first step")
    ]
    assert all(figure["value"] > 0 for figure in report["figures"])
    for name in EXACT:
        found = report["details"]["codecs"][name]
        assert found["loudest sample"] > 0.01, "silence would prove nothing"
        assert found["largest difference of stage and bare"] < 1e-4
