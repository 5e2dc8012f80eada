"""Replicas on a Ray cluster of several nodes: it speaks, and it loses nothing with a node.

The nodes are real ones, with a raylet each, on this machine.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

import pytest
from ray.cluster_utils import Cluster

from engine.async_omni_engine import AsyncOmniEngine
from engine.config import EngineConfig
from tests.e2e.remote_worker import TIMEOUT_S, running, sine_with, speak, until

pytestmark = [pytest.mark.process, pytest.mark.ray]

NUM_REQUESTS = 6
ON_RAY = sine_with("ray", (0, 1), num_replicas=2)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A head that runs no replica, and one node that has room for all of them."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False}
    )
    cluster.add_node(num_cpus=4)
    try:
        yield cluster
    finally:
        cluster.shutdown()  # type: ignore[no-untyped-call]


@pytest.fixture(scope="module")
def undisturbed() -> bytes:
    """What the same pipeline speaks with local replicas."""

    async def main() -> bytes:
        async with running(sine_with("local", ())) as engine:
            await engine.wait_ready(TIMEOUT_S)
            return await speak(engine, "r")

    return asyncio.run(main())


def ready(engine: AsyncOmniEngine) -> list[int]:
    return [stage["ready"] for stage in engine.readiness()["stages"].values()]


def restarts(engine: AsyncOmniEngine) -> int:
    return sum(stage["restarts"] for stage in engine.readiness()["stages"].values())


def test_a_node_killed_in_mid_load_loses_no_request_and_no_byte(
    cluster: Cluster, undisturbed: bytes
) -> None:
    """The node goes when every request has its first chunk, and none more than a part of its rest.

    Six requests are spread over two nodes, so that some of each stage are lost with it.
    """
    doomed = cluster.add_node(num_cpus=2)
    heard = asyncio.Barrier(NUM_REQUESTS)

    async def kill_node_when_all_are_heard() -> None:
        if await heard.wait() == 0:
            await asyncio.to_thread(cluster.remove_node, doomed, allow_graceful=False)
        await heard.wait()

    async def main() -> None:
        config = EngineConfig(ray_address=cluster.address)
        async with running(ON_RAY, config) as engine:
            await until(lambda: ready(engine) == [2, 2])
            spoken = await asyncio.gather(
                *(
                    speak(engine, f"r{number}", after_first=kill_node_when_all_are_heard)
                    for number in range(NUM_REQUESTS)
                )
            )

            assert [len(pcm) for pcm in spoken] == [len(undisturbed)] * NUM_REQUESTS
            assert set(spoken) == {undisturbed}
            await until(lambda: engine.snapshot.counters.num_replays > 0)
            await until(lambda: restarts(engine) > 0)
            await until(lambda: ready(engine) == [2, 2])
            assert await speak(engine, "after") == undisturbed
            await asyncio.to_thread(engine.check_integrity)

    asyncio.run(main())
