from __future__ import annotations

import os
import subprocess
import sys
import time

from benchmarks.processes import CpuMeter, children, cpu_s, describe_machine, rss_mib

# By new pages: malloc may give freed ones again.
GROWS = """
import mmap, sys
print("small", flush=True)
sys.stdin.readline()
block = mmap.mmap(-1, 64 * 2**20)
block[::4096] = b"x" * (len(block) // 4096)
print("large", flush=True)
sys.stdin.read()
"""
GONE = 2**22 + 1  # above the highest pid that Linux gives


def test_cpu_time_grows_with_work() -> None:
    meter = CpuMeter({})
    before = cpu_s(os.getpid())
    while time.process_time() < before + 0.2:
        pass
    used = meter.stop()
    assert 0.1 <= used.by_name["client"] <= used.wall_s * 2
    assert used.others_cores >= 0.0


def test_memory_is_that_of_the_process() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", GROWS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline() == "small\n"
        before = rss_mib(child.pid)
        print("go", file=child.stdin, flush=True)
        assert child.stdout.readline() == "large\n"
        assert 60 <= rss_mib(child.pid) - before <= 70


def test_a_process_that_is_gone_uses_nothing() -> None:
    assert cpu_s(GONE) == 0.0
    assert rss_mib(GONE) == 0.0


def test_children_are_found() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert child.pid in children(os.getpid())
    finally:
        child.communicate(b"\n")
    assert child.pid not in children(os.getpid())


def test_the_machine_is_described() -> None:
    machine = describe_machine()
    assert machine["num_cores"] >= 1
    assert machine["cpu"]
    assert "numpy" in machine["packages"]
