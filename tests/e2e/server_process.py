"""``voxloom serve`` as a process of its own, with its real workers."""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

_TIMEOUT_S = 30.0


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


class ServerProcess:
    """A started server; ``log`` holds what it wrote so far."""

    def __init__(self, arguments: list[str], environ: Mapping[str, str]) -> None:
        self.port = free_port()
        self.log: list[str] = []
        self._connections: list[http.client.HTTPConnection] = []
        self.process = subprocess.Popen(
            [sys.executable, "-m", "server.cli", "serve", *arguments],
            env={**os.environ, "PORT": str(self.port), **environ},
            stderr=subprocess.PIPE,
            text=True,
        )

    def read_until(self, pattern: str) -> re.Match[str]:
        """Read the log until a line matches; fails if it ends before."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.log.append(line)
            if match := re.search(pattern, line):
                return match
        raise AssertionError(f"no line with {pattern!r} in:\n{''.join(self.log)}")

    def wait(self) -> int:
        """Read the log to its end; the exit status."""
        assert self.process.stderr is not None
        self.log += self.process.stderr.readlines()
        return self.process.wait(_TIMEOUT_S)

    def connect(self) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_TIMEOUT_S)
        self._connections.append(connection)
        return connection

    def get(self, path: str) -> http.client.HTTPResponse:
        connection = self.connect()
        connection.request("GET", path)
        return connection.getresponse()

    def speak(self, text: str, **fields: Any) -> http.client.HTTPResponse:
        connection = self.connect()
        body = json.dumps({"input": text, "response_format": "pcm"} | fields)
        connection.request("POST", "/v1/audio/speech", body, {"content-type": "application/json"})
        return connection.getresponse()

    def metric(self, series: str) -> float:
        """The value of a series, named with its labels; 0 for one that has not been counted."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=_TIMEOUT_S)) as own:
            own.request("GET", "/metrics")
            text = own.getresponse().read().decode()
        for line in text.splitlines():
            name, _, value = line.rpartition(" ")
            if name == series:
                return float(value)
        return 0.0

    def await_metric(self, series: str, value: float) -> None:
        """Ask until the series has the value; the engine's are at most a tenth of a second old."""
        give_up_at = time.monotonic() + _TIMEOUT_S
        while (seen := self.metric(series)) != value:
            assert time.monotonic() < give_up_at, f"{series} is {seen}, not {value}"

    def worker_pids(self) -> list[int]:
        pids = [re.search(r"as process (\d+)", line) for line in self.log]
        return [int(match.group(1)) for match in pids if match]

    def close(self) -> None:
        for connection in self._connections:
            connection.close()
        self.process.terminate()
        try:
            self.process.wait(_TIMEOUT_S)
        finally:
            self.process.kill()
            assert self.process.stderr is not None
            self.process.stderr.close()


@contextmanager
def serving(
    *arguments: str, ready: bool = True, environ: Mapping[str, str] | None = None
) -> Iterator[ServerProcess]:
    """A server with these arguments; ``ready`` waits until it can speak."""
    server = ServerProcess(list(arguments), environ or {})
    try:
        if ready:
            server.read_until("voxloom.server: ready")
        yield server
    finally:
        server.close()


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
