"""Resident memory per process, idle and per running request, beside the bare library's."""

from __future__ import annotations

import json
import subprocess
import sys
import threading

from benchmarks.figures import Figure, Report
from benchmarks.options import Options, run_async
from benchmarks.processes import rss_mib
from benchmarks.server_process import ServerProcess, running_server
from benchmarks.speech_client import speak_all
from benchmarks.texts import sentences

_CONCURRENCY = 16
_NUM_WORDS = 20
_SAMPLE_EVERY_S = 0.02
# Prints the memory of a process that has spoken with two threads, in KiB.
_BARE_PROGRAM = """
import json, resource, sys
from benchmarks.bare_library import BareLibrary
BareLibrary().speak_all(json.load(sys.stdin), 2)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def run(options: Options) -> Report:
    """Idle after a warm-up, then the highest while 16 requests run."""
    texts = sentences(0, options.pick(160, 4), _NUM_WORDS)
    bare_mib = _bare_mib(texts)
    with running_server(options.pipeline) as server:
        run_async(speak_all(server.port, texts[:_CONCURRENCY], 1))
        idle = {name: rss_mib(pid) for name, pid in server.pids.items()}
        peak = _peak_while(server, texts)
    figures = [
        Figure("all processes, idle", sum(idle.values()), "MiB", bare_mib, better="lower"),
        Figure("all processes, 16 requests", sum(peak.values()), "MiB", bare_mib, better="lower"),
        Figure(
            "per running request",
            (sum(peak.values()) - sum(idle.values())) / _CONCURRENCY,
            "MiB",
            better="lower",
        ),
        *(Figure(f"{name}, idle", mib, "MiB", better="lower") for name, mib in idle.items()),
    ]
    return Report("memory", figures, {"idle_mib": idle, "peak_mib": peak})


def _bare_mib(texts: list[str]) -> float:
    command = [sys.executable, "-c", _BARE_PROGRAM]
    result = subprocess.run(
        command, input=json.dumps(texts), capture_output=True, text=True, check=True
    )
    return int(result.stdout) / 1024


def _peak_while(server: ServerProcess, texts: list[str]) -> dict[str, float]:
    """The highest memory of each process while all texts are spoken."""
    pids = server.pids
    peak = {name: rss_mib(pid) for name, pid in pids.items()}
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.wait(_SAMPLE_EVERY_S):
            for name, pid in pids.items():
                peak[name] = max(peak[name], rss_mib(pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        run_async(speak_all(server.port, texts, _CONCURRENCY))
    finally:
        is_over.set()
        watcher.join()
    return peak
