"""The process that talks to Ray: commands in on standard input, ends of actors out, as JSON lines.

It is a process of its own because Ray ends a driver's whole process when the cluster's head has
been away for a minute, which must not be the engine's. It ends with its input, and with it the
actors that it started.
"""

from __future__ import annotations

import importlib
import logging
import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, BinaryIO, TypeAlias

import msgspec

from engine.pipeline import StageConfig, load_object
from engine.placement.environment import WORKER_DEFAULTS
from engine.placement.spec import ReplicaSpec

logger = logging.getLogger("voxloom.engine.placement.ray")

# How long a command may wait while the actors are watched.
_WATCH_S = 0.1
_WILDCARDS = ("0.0.0.0", "::", "*")  # noqa: S104 - recognised here, not bound


class StartActor(msgspec.Struct, frozen=True, tag=True):
    """Start an actor that runs this replica and finds the engine at ``host``.

    It has failed if Ray has not placed it within ``placement_timeout_s``.
    """

    spec: ReplicaSpec
    host: str
    placement_timeout_s: float


class KillActor(msgspec.Struct, frozen=True, tag=True):
    """End an actor; unknown ids are ignored."""

    replica_id: str


class ActorEnded(msgspec.Struct, frozen=True):
    """An actor ended by itself, or could not be started."""

    replica_id: str
    reason: str


Command: TypeAlias = StartActor | KillActor


@dataclass(slots=True)
class _Actor:
    handle: Any
    placed: Any | None  # the reference that is ready when the actor has a node; None since then
    run: Any  # the reference that is ready when the actor has ended
    stage: StageConfig
    timeout_s: float
    give_up_at: float


class ReplicaActor:
    """What Ray runs on a node. Its calls are carried out one after the other."""

    def note_placed(self) -> None:
        """Answered as soon as the actor has a node."""

    def run(self, spec: bytes) -> int:
        """Run a replica to its end; the status that a process of its own would exit with."""
        status: int = load_object("worker.main:run_encoded", "worker")(spec)
        return status


class RayDriver:
    """Starts and watches actors. ``report`` is called with each that ends."""

    def __init__(
        self,
        ray: Any,
        address: str | None,
        report: Callable[[ActorEnded], None],
    ) -> None:
        self._ray = ray
        self._address = address
        self._report = report
        self._actors: dict[str, _Actor] = {}

    @property
    def is_idle(self) -> bool:
        """Whether there is no actor to watch."""
        return not self._actors

    def start(self, command: StartActor) -> None:
        replica_id = command.spec.replica_id
        try:
            self._connect()
            self._actors[replica_id] = self._launch(command)
        except Exception as error:
            logger.exception("replica %s cannot be started", replica_id)
            reason = f"could not be started on Ray: {type(error).__name__}: {first_line(error)}"
            self._report(ActorEnded(replica_id, reason))
            return
        logger.info("replica %s waits for a node of Ray's", replica_id)

    def kill(self, replica_id: str) -> None:
        actor = self._actors.pop(replica_id, None)
        if actor is not None:
            self._ray.kill(actor.handle, no_restart=True)

    def watch(self) -> None:
        """Report the actors that have ended, or end within a moment."""
        runs = {actor.run: replica_id for replica_id, actor in self._actors.items()}
        if not runs:
            return
        placing = [actor.placed for actor in self._actors.values() if actor.placed is not None]
        watched = [*runs, *placing]
        ready, _ = self._ray.wait(watched, num_returns=len(watched), timeout=_WATCH_S)
        self._check_placed({ref for ref in ready if ref not in runs})
        for run in ready:
            if run in runs and runs[run] in self._actors:
                self._end(runs[run], self._reason(run))

    def _check_placed(self, placed: set[Any]) -> None:
        """Note the actors that have a node; end those that have waited too long for one."""
        for replica_id, actor in list(self._actors.items()):
            if actor.placed in placed:
                actor.placed = None
            elif actor.placed is not None and time.monotonic() > actor.give_up_at:
                self._end(replica_id, self._not_placed(actor))

    def _end(self, replica_id: str, reason: str) -> None:
        self.kill(replica_id)  # an actor that Ray has lost sight of may still be there
        self._report(ActorEnded(replica_id, reason))

    def _not_placed(self, actor: _Actor) -> str:
        """What was asked for, and what there is: the operator has to change one of them."""
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        free = self._ray.available_resources()
        there = [
            f"{sum(node.get(kind, 0) for node in nodes):g} {kind}s"
            f" ({free.get(kind, 0):g} free, at most"
            f" {max((node.get(kind, 0) for node in nodes), default=0):g} on one node)"
            for kind in ("CPU", "GPU")
        ]
        return (
            f"was not placed by Ray within {actor.timeout_s:g} s: stage {actor.stage.name!r} asks"
            f" for num_cpus: {actor.stage.num_cpus:g} and num_gpus: {actor.stage.num_gpus:g} a"
            f" replica; the cluster has {' and '.join(there)} on {len(nodes)} nodes"
        )

    def stop(self) -> None:
        for replica_id in list(self._actors):
            self.kill(replica_id)
        self._ray.shutdown()

    def _connect(self) -> None:
        if not self._ray.is_initialized():
            self._ray.init(address=self._address, configure_logging=False)

    def _launch(self, command: StartActor) -> _Actor:
        spec = self._reachable(command)
        stage = spec.pipeline.stages[spec.stage_id]
        actor = self._ray.remote(ReplicaActor).options(
            num_cpus=stage.num_cpus,
            num_gpus=stage.num_gpus,
            max_restarts=0,
            max_task_retries=0,
            # A stage's replicas on different nodes: one node's end leaves the others.
            scheduling_strategy="SPREAD",
            runtime_env={"env_vars": WORKER_DEFAULTS},
        )
        handle = actor.remote()
        timeout_s = command.placement_timeout_s
        return _Actor(
            handle,
            handle.note_placed.remote(),
            handle.run.remote(msgspec.json.encode(spec)),
            stage,
            timeout_s,
            time.monotonic() + timeout_s,
        )

    def _reachable(self, command: StartActor) -> ReplicaSpec:
        """The spec with endpoints that lead to the engine from a node of the cluster."""
        spec, host = command.spec, command.host
        if host in _WILDCARDS:
            host = self._ray.util.get_node_ip_address()
        host = f"[{host}]" if ":" in host else host
        ports = [e.rpartition(":")[2] for e in (spec.data_endpoint, spec.control_endpoint)]
        data, control = (f"tcp://{host}:{port}" for port in ports)
        return msgspec.structs.replace(spec, data_endpoint=data, control_endpoint=control)

    def _reason(self, run: Any) -> str:
        try:
            return f"exited with status {self._ray.get(run)}"
        except self._ray.exceptions.RayError as error:
            return f"was lost with its Ray actor: {type(error).__name__}: {first_line(error)}"


def first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


def read_commands(file: BinaryIO, commands: queue.SimpleQueue[Command | None]) -> None:
    """Put each line's command into the queue, and None at the end."""
    for line in file:
        commands.put(msgspec.json.decode(line, type=Command))
    commands.put(None)


def run(driver: RayDriver, commands: queue.SimpleQueue[Command | None]) -> None:
    """Carry out commands and watch the actors until the commands end."""
    while True:
        while driver.is_idle or not commands.empty():
            match commands.get():
                case StartActor() as command:
                    driver.start(command)
                case KillActor(replica_id):
                    driver.kill(replica_id)
                case None:
                    return
        driver.watch()


def main() -> int:
    # Ray and the actors print; standard output is for what the engine reads.
    reports = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    # Ray reports its use to its makers unless told not to.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    commands: queue.SimpleQueue[Command | None] = queue.SimpleQueue()
    reader = threading.Thread(target=read_commands, args=(sys.stdin.buffer, commands), daemon=True)
    reader.start()
    address = sys.argv[1] if len(sys.argv) > 1 else None

    def report(ended: ActorEnded) -> None:
        reports.write(msgspec.json.encode(ended) + b"\n")

    driver = RayDriver(importlib.import_module("ray"), address, report)
    run(driver, commands)
    driver.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
