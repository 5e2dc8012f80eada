"""Ray's placement against a real Ray: actors that end, drivers that end, a cluster that is not."""

from __future__ import annotations

import importlib.util
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import pytest
import zmq

from engine.config import EngineConfig
from engine.errors import ConfigError
from engine.pipeline import PipelineConfig, StageConfig
from engine.placement.network import Network
from engine.placement.on_ray import RayPlacement
from engine.placement.spec import ReplicaSpec

pytestmark = [pytest.mark.process, pytest.mark.ray]

TIMEOUT_S = 240.0
STAGE = StageConfig(name="notes", model="worker.models.sine.notes:load", placement="ray")
PIPELINE = PipelineConfig(name="p", description="d", stages=(STAGE,))


class Engine:
    """The engine's two lanes, with keys, and Ray's placement beside them."""

    def __init__(self, config: EngineConfig) -> None:
        self.network = Network(PIPELINE, config)
        assert self.network.curve is not None
        self.placement = RayPlacement(config, self.network.curve)
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.data, self.control = (self.context.socket(zmq.ROUTER) for _ in range(2))
        self.network.open(self.context, self.data, self.control)

    def start(
        self, replica_id: str, *, is_reachable: bool = True, pipeline: PipelineConfig = PIPELINE
    ) -> None:
        endpoints = (self.network.data_endpoint, self.network.control_endpoint)
        data, control = endpoints if is_reachable else ("tcp://127.0.0.1:9",) * 2
        self.placement.start(ReplicaSpec(replica_id, 0, 0, pipeline, data, control, 30.0))

    def await_hello(self, replica_id: str) -> None:
        assert self.data.poll(int(TIMEOUT_S * 1000))
        assert self.data.recv_multipart()[0] == replica_id.encode()

    def await_exits(self, num_exits: int) -> dict[str, str]:
        exits: list[tuple[str, str]] = []
        poller = zmq.Poller()
        for fd in self.placement.exit_fds():
            poller.register(fd, zmq.POLLIN)
        give_up_at = time.monotonic() + TIMEOUT_S
        while len(exits) < num_exits:
            assert time.monotonic() < give_up_at, f"only {exits}"
            poller.poll(1000)
            exits += self.placement.poll_exits()
        return dict(exits)

    def close(self) -> None:
        self.placement.stop()
        self.network.close()
        self.context.destroy(linger=0)


@contextmanager
def engine(config: EngineConfig) -> Iterator[Engine]:
    engine = Engine(config)
    try:
        yield engine
    finally:
        engine.close()


# The first of all: a CPU that an actor had is free again only some time after its end.
def test_an_actor_that_no_node_can_hold_is_given_up_with_what_was_asked_and_what_there_is(
    ray_address: str,
) -> None:
    stage = msgspec.structs.replace(STAGE, num_cpus=64.0, num_gpus=1.0)
    too_large = msgspec.structs.replace(PIPELINE, stages=(stage,))
    config = EngineConfig(ray_address=ray_address, ray_placement_timeout_s=1.0)
    with engine(config) as ours:
        ours.start("large-0", pipeline=too_large)
        assert ours.await_exits(1) == {
            "large-0": "was not placed by Ray within 1 s: stage 'notes' asks for num_cpus: 64 and"
            " num_gpus: 1 a replica; the cluster has 2 CPUs (2 free, at most 2 on one node) and"
            " 0 GPUs (0 free, at most 0 on one node) on 1 nodes"
        }
        assert ours.placement.poll_exits() == []


def test_an_actor_says_hello_and_its_end_is_reported_with_the_reason(ray_address: str) -> None:
    with engine(EngineConfig(ray_address=ray_address)) as ours:
        ours.start("far-0", is_reachable=False)
        assert ours.await_exits(1) == {"far-0": "exited with status 1"}

        ours.start("notes-0")
        ours.await_hello("notes-0")
        ours.placement.kill("notes-0")
        ours.start("notes-1")
        ours.await_hello("notes-1")
        assert ours.placement.poll_exits() == []  # a kill is not reported back


def test_when_the_driver_ends_its_actors_are_lost_and_the_next_start_has_another(
    ray_address: str,
) -> None:
    with engine(EngineConfig(ray_address=ray_address)) as ours:
        ours.start("notes-0")
        ours.await_hello("notes-0")
        assert ours.placement._driver is not None
        os.kill(ours.placement._driver.pid, signal.SIGKILL)

        exits = ours.await_exits(1)
        assert exits == {"notes-0": "lost Ray: its driver ended with status -9"}
        assert ours.placement.exit_fds() == []

        ours.start("notes-1")
        ours.await_hello("notes-1")


def test_a_cluster_that_is_not_there_is_a_failed_start() -> None:
    with engine(EngineConfig(ray_address="nowhere")) as ours:
        ours.start("notes-0")

        (reason,) = ours.await_exits(1).values()
        assert reason.startswith("could not be started on Ray: ")


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_nothing(_name: str) -> None:
        return None

    curve = Network(PIPELINE, EngineConfig()).curve
    assert curve is not None
    monkeypatch.setattr(importlib.util, "find_spec", find_nothing)

    with pytest.raises(ConfigError, match=r"pip install 'voxloom\[ray\]'"):
        RayPlacement(EngineConfig(), curve)
