"""Making keys from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.placement.keys import read_allowed_workers, read_worker_keys
from server.cli import main


def test_new_keys_are_named_as_they_are_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["keys", "new", str(tmp_path)]) == 0

    names = [Path(line).name for line in capsys.readouterr().out.splitlines()]
    assert names == ["server.key", "worker.key", "allowed-workers"]
    assert {path.name for path in tmp_path.iterdir()} == set(names)


def test_one_more_worker_is_allowed(tmp_path: Path) -> None:
    assert main(["keys", "new", str(tmp_path)]) == 0
    assert main(["keys", "worker", str(tmp_path), "gpu-2"]) == 0

    allowed = read_allowed_workers(tmp_path / "allowed-workers")
    assert read_worker_keys(tmp_path / "gpu-2.key").public_key in allowed
    assert len(allowed) == 2


def test_a_second_time_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["keys", "new", str(tmp_path)]) == 0
    assert main(["keys", "new", str(tmp_path)]) == 1

    assert "exists already" in capsys.readouterr().err
