from __future__ import annotations

import os

import pytest

from benchmarks.processes import rss_mib
from benchmarks.server_process import running_server


@pytest.mark.process
def test_a_server_is_ready_inside_and_gone_after() -> None:
    with running_server("sine") as server:
        pids = server.pids
        assert server.get("/ready")[0] == 200
        assert set(pids) == {"api", "notes", "tone"}
        assert all(rss_mib(pid) > 1 for pid in pids.values())
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids.values())


@pytest.mark.process
def test_a_server_that_cannot_start_is_an_error_with_its_log() -> None:
    with (
        pytest.raises(RuntimeError, match="max_running"),
        running_server("sine", environ={"VOXLOOM_ENGINE_MAX_RUNNING": "0"}),
    ):
        pass
