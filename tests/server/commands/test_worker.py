"""The command line of a worker; what the worker does is in ``tests/e2e/test_remote_worker.py``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from server.cli import main

WORKER = ["worker", "--stage", "tone", "--connect"]


@pytest.mark.parametrize(
    "address", ["host:1", "tcp://host", "tcp://:1", "tcp://host:", "tcp://host:x", "http://host:1"]
)
def test_an_address_that_is_none_is_refused(
    address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*WORKER, address]) == 1
    assert "--connect must be tcp://HOST:PORT" in capsys.readouterr().err


@pytest.mark.process
def test_a_key_file_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    key_file = tmp_path / "worker.key"
    key_file.write_text("public_key: x\n")
    command = [*WORKER, "tcp://127.0.0.1:1", "--key-file", str(key_file)]

    done = subprocess.run(
        [sys.executable, "-m", "server.cli", *command], capture_output=True, text=True, timeout=120
    )

    assert done.returncode == 3
    assert str(key_file) in done.stderr
    assert "Traceback" not in done.stderr
