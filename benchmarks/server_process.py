"""A voxloom server in processes of its own."""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.processes import children
from engine.pipeline import load_pipeline

# A cold disk and a busy machine; a server that needs longer is broken.
_START_TIMEOUT_S = 300.0
_STOP_TIMEOUT_S = 60.0
_POLL_S = 0.05
_LOG_TAIL_CHARS = 3000
_LISTENING = re.compile(r"voxloom\.server: listening on http://\S+:(\d+)\n")


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """A server that is ready."""

    port: int
    process: subprocess.Popen[bytes]
    log_path: Path
    stage_names: tuple[str, ...]

    @property
    def pids(self) -> dict[str, int]:
        """Its processes by name: ``api``, and the worker of each stage (of one replica)."""
        # Workers start in the order of their stages, so their pids ascend.
        workers = children(self.process.pid)
        return {"api": self.process.pid, **dict(zip(self.stage_names, workers, strict=True))}

    def get(self, path: str) -> tuple[int, str]:
        """Status and body of a GET."""
        return _get(self.port, path)


@contextlib.contextmanager
def running_server(
    pipeline: str,
    *,
    module: str = "server.cli",
    arguments: Sequence[str] = ("serve",),
    environ: Mapping[str, str] | None = None,
) -> Iterator[ServerProcess]:
    """A server of ``pipeline`` on a free port, ended at the end.

    Raises ``RuntimeError`` with the end of its log if it does not get ready.
    """
    with tempfile.TemporaryDirectory() as folder:
        log_path = Path(folder) / "server.log"
        command = [sys.executable, "-m", module, *arguments]
        command += ["--pipeline", pipeline, "--port", "0"]
        with log_path.open("wb") as log:
            process = subprocess.Popen(
                command, stdout=log, stderr=log, env={**os.environ, **(environ or {})}
            )
        stage_names = tuple(stage.name for stage in load_pipeline(pipeline).stages)
        try:
            server = ServerProcess(_await_port(process, log_path), process, log_path, stage_names)
            _wait_ready(server)
            yield server
        finally:
            _stop(process)


def _await_port(process: subprocess.Popen[bytes], log_path: Path) -> int:
    """The port that the system gave the server: one found before may be another's by now."""
    for _ in _moments(process):
        if found := _LISTENING.search(log_path.read_text(errors="replace")):
            return int(found[1])
    raise _not_ready(log_path)


def _wait_ready(server: ServerProcess) -> None:
    for _ in _moments(server.process):
        with contextlib.suppress(OSError):
            if _get(server.port, "/ready")[0] == 200:
                return
    raise _not_ready(server.log_path)


def _moments(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Moments to look at a process that starts, until it has ended or had enough time."""
    give_up_at = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < give_up_at and process.poll() is None:
        yield
        time.sleep(_POLL_S)


def _not_ready(log_path: Path) -> RuntimeError:
    log = log_path.read_text(errors="replace")[-_LOG_TAIL_CHARS:]
    return RuntimeError(f"the server did not get ready; its log ends with:\n{log}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise


def _get(port: int, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()
