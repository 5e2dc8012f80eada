"""CPU time and memory of processes, and what the machine is. Reads Linux's /proc."""

from __future__ import annotations

import contextlib
import os
import platform
import time
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_PACKAGES = ("hibari-tts", "onnxruntime", "numpy", "scipy", "uvicorn", "uvloop", "pyzmq")
_MIB = 2**20


def cpu_s(pid: int) -> float:
    """CPU seconds that a process has used, all its threads; 0 once it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0.0
    # The name, field 2, may hold spaces and brackets: count from its end (proc(5)).
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def rss_mib(pid: int) -> float:
    """Resident memory in MiB; 0 once the process is gone."""
    try:
        pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    except OSError:
        return 0.0
    return int(pages) * _PAGE_BYTES / _MIB


def children(pid: int) -> list[int]:
    """The direct children of a process, oldest first."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):  # a thread that has ended since it was listed
            found += [int(child) for child in (task / "children").read_text().split()]
    return sorted(found)


def machine_busy_s() -> float:
    """CPU seconds that the whole machine has been busy, what its host took included."""
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(
        int, Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
    )
    return (user + nice + system + irq + softirq + steal) / _TICKS_PER_S


@dataclass(frozen=True, slots=True)
class CpuUse:
    """CPU seconds by process name over ``wall_s``; ``others_cores``: what the rest used."""

    wall_s: float
    by_name: dict[str, float]
    others_cores: float


class CpuMeter:
    """CPU time of named processes from its making to ``stop``. This process is ``client``."""

    def __init__(self, pids: dict[str, int]) -> None:
        self._pids = {**pids, "client": os.getpid()}
        self._before = {name: cpu_s(pid) for name, pid in self._pids.items()}
        self._busy_s = machine_busy_s()
        self._started_at = time.perf_counter()

    def stop(self) -> CpuUse:
        wall_s = time.perf_counter() - self._started_at
        used = {name: cpu_s(pid) - self._before[name] for name, pid in self._pids.items()}
        others_s = machine_busy_s() - self._busy_s - sum(used.values())
        return CpuUse(wall_s, used, max(others_s, 0.0) / wall_s)


def describe_machine() -> dict[str, Any]:
    """What a figure depends on."""
    return {
        "cpu": _cpu_model(),
        "num_cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "packages": {name: found for name in _PACKAGES if (found := _version(name))},
    }


def _cpu_model() -> str:
    lines: Iterable[str] = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
