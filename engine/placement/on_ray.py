"""Replicas as Ray actors: Ray finds the node, the pool stays the only supervisor.

An actor runs the worker's loop in its own process and comes back over TCP, with keys made for it.
Ray restarts and retries nothing. Ray itself is talked to by a process of its own (``ray_driver``);
when that ends, its actors end with it, and the next replica to start starts the next one.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import signal
import subprocess
import sys

import msgspec

from engine.config import EngineConfig
from engine.errors import ConfigError
from engine.placement.curve_server import CurveServer
from engine.placement.ray_driver import ActorEnded, Command, KillActor, StartActor
from engine.placement.spec import ReplicaSpec

logger = logging.getLogger("voxloom.engine.placement")

_STOP_TIMEOUT_S = 15.0
_KILL_TIMEOUT_S = 5.0


class RayPlacement:
    """Starts an actor per replica, with the CPUs and GPUs that its stage asks for."""

    def __init__(self, config: EngineConfig, curve: CurveServer) -> None:
        if importlib.util.find_spec("ray") is None:
            raise ConfigError("placement: ray needs Ray: pip install 'voxloom[ray]'")
        self._address = config.ray_address
        self._host = config.advertise_host or config.bind_host
        self._placement_timeout_s = config.ray_placement_timeout_s
        self._curve = curve
        self._driver: subprocess.Popen[bytes] | None = None
        self._unread = b""
        self._running: set[str] = set()
        self._exits: list[tuple[str, str]] = []

    def start(self, spec: ReplicaSpec) -> None:
        self._running.add(spec.replica_id)
        keys = self._curve.issue(spec.replica_id)
        if self._driver is None:
            self._driver = self._start_driver()
        spec = msgspec.structs.replace(spec, keys=keys)
        self._send(StartActor(spec, self._host, self._placement_timeout_s))

    def kill(self, replica_id: str) -> None:
        if replica_id in self._running:
            self._forget(replica_id)
            self._send(KillActor(replica_id))

    def poll_exits(self) -> list[tuple[str, str]]:
        if self._driver is not None:
            self._read(self._driver)
        exits, self._exits = self._exits, []
        return exits

    def exit_fds(self) -> list[int]:
        if self._driver is None:
            return []
        assert self._driver.stdout is not None
        return [self._driver.stdout.fileno()]

    def stop(self) -> None:
        driver, self._driver = self._driver, None
        if driver is None:
            return
        assert driver.stdin is not None
        assert driver.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            driver.stdin.close()
        try:
            driver.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            logger.error("Ray does not answer; its actors end when they miss the engine")
            os.killpg(driver.pid, signal.SIGKILL)
            driver.wait(_KILL_TIMEOUT_S)
        driver.stdout.close()

    def _start_driver(self) -> subprocess.Popen[bytes]:
        address = [] if self._address is None else [self._address]
        driver = subprocess.Popen(  # noqa: S603 - a list, from the operator's settings
            [sys.executable, "-m", "engine.placement.ray_driver", *address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        assert driver.stdin is not None
        assert driver.stdout is not None
        os.set_blocking(driver.stdin.fileno(), False)
        os.set_blocking(driver.stdout.fileno(), False)
        self._unread = b""
        logger.info("process %d talks to Ray", driver.pid)
        return driver

    def _send(self, command: Command) -> None:
        """A driver that does not read is ended; so are all of its actors then."""
        if self._driver is None:
            return
        assert self._driver.stdin is not None
        line = msgspec.json.encode(command) + b"\n"
        with contextlib.suppress(BrokenPipeError):  # its end is found when it is read from
            if self._driver.stdin.write(line) != len(line):
                logger.error("the process that talks to Ray does not read its commands")
                self._driver.kill()

    def _read(self, driver: subprocess.Popen[bytes]) -> None:
        assert driver.stdout is not None
        while (data := driver.stdout.read(65536)) is not None:
            if not data:
                self._driver_ended(driver)
                return
            *lines, self._unread = (self._unread + data).split(b"\n")
            for line in lines:
                self._ended(msgspec.json.decode(line, type=ActorEnded))

    def _ended(self, ended: ActorEnded) -> None:
        if ended.replica_id in self._running:
            self._forget(ended.replica_id)
            self._exits.append((ended.replica_id, ended.reason))

    def _driver_ended(self, driver: subprocess.Popen[bytes]) -> None:
        status = driver.wait(_KILL_TIMEOUT_S)
        logger.error("the process that talks to Ray ended with status %d", status)
        assert driver.stdin is not None
        assert driver.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            driver.stdin.close()
        driver.stdout.close()
        self._driver = None
        for replica_id in sorted(self._running):
            self._ended(ActorEnded(replica_id, f"lost Ray: its driver ended with status {status}"))

    def _forget(self, replica_id: str) -> None:
        self._running.discard(replica_id)
        self._curve.revoke(replica_id)
