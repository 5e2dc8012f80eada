"""Replicas as subprocesses of this machine, each the leader of its own process group."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from dataclasses import dataclass

import msgspec

from engine.placement.environment import WORKER_DEFAULTS
from engine.placement.spec import ReplicaSpec

logger = logging.getLogger("voxloom.engine.placement")

# SIGKILL cannot be refused; a process that outlives it for this long is stuck in the kernel.
_KILL_TIMEOUT_S = 5.0


@dataclass(slots=True)
class _Process:
    popen: subprocess.Popen[bytes]
    pidfd: int | None


class LocalPlacement:
    """Starts ``python -m worker.main`` with the spec on its standard input."""

    def __init__(self) -> None:
        self._processes: dict[str, _Process] = {}
        self._failed_starts: list[tuple[str, str]] = []

    def start(self, spec: ReplicaSpec) -> None:
        stage = spec.pipeline.stages[spec.stage_id]
        try:
            popen = subprocess.Popen(
                [sys.executable, "-m", "worker.main"],
                stdin=subprocess.PIPE,
                start_new_session=True,
                env=_environment(stage.gpus, spec.rank),
            )
            assert popen.stdin is not None
            with popen.stdin as stdin:
                stdin.write(msgspec.json.encode(spec))
        except OSError as error:
            self._failed_starts.append((spec.replica_id, f"could not be started: {error}"))
            return
        self._processes[spec.replica_id] = _Process(popen, _open_pidfd(popen.pid))
        logger.info("replica %s started as process %d", spec.replica_id, popen.pid)

    def kill(self, replica_id: str) -> None:
        process = self._processes.pop(replica_id, None)
        if process is None:
            return
        _kill_group(process.popen)
        self._reap(replica_id, process)

    def poll_exits(self) -> list[tuple[str, str]]:
        exits, self._failed_starts = self._failed_starts, []
        for replica_id, process in list(self._processes.items()):
            status = process.popen.poll()
            if status is None:
                continue
            del self._processes[replica_id]
            _kill_group(process.popen)  # what the worker started must not outlive it
            self._reap(replica_id, process)
            exits.append((replica_id, _describe_exit(status)))
        return exits

    def exit_fds(self) -> list[int]:
        return [p.pidfd for p in self._processes.values() if p.pidfd is not None]

    def stop(self) -> None:
        for replica_id in list(self._processes):
            self.kill(replica_id)

    def _reap(self, replica_id: str, process: _Process) -> None:
        if process.pidfd is not None:
            os.close(process.pidfd)
        try:
            process.popen.wait(_KILL_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            logger.error("replica %s does not die: process %d", replica_id, process.popen.pid)


def _environment(gpus: tuple[tuple[int, ...], ...], rank: int) -> dict[str, str]:
    environment = WORKER_DEFAULTS | os.environ
    if gpus:
        environment["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, gpus[rank % len(gpus)]))
    return environment


def _open_pidfd(pid: int) -> int | None:
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def _kill_group(popen: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(popen.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def _describe_exit(status: int) -> str:
    if status >= 0:
        return f"exited with status {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"
