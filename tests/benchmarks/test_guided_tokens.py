"""The comparison with bare vLLM, whole, in quick mode."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.vllm


def test_both_sides_are_measured_solo_and_guided(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    command = [sys.executable, "-m", "benchmarks", "guided_tokens", "--quick", "--out", str(out)]
    subprocess.run(command, check=True, timeout=900)
    (report,) = json.loads(out.read_text())
    assert [figure["name"].split()[0] for figure in report["figures"]] == ["solo", "guided"]
    assert all(figure["value"] > 0 < figure["reference"] for figure in report["figures"])
