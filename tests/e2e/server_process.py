"""``voxloom serve`` as a process of its own, with its real workers."""

from __future__ import annotations

import functools
import http.client
import itertools
import json
import operator
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

# A machine that is busy with other things may take many times as long as a quiet one.
_TIMEOUT_S = 300.0
# The engine tells its figures ten times a second.
_LOOK_EVERY_S = 0.02


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


class ServerProcess:
    """A started server, on a port that the system gives it; ``log`` holds what it wrote so far."""

    def __init__(self, arguments: list[str], environ: Mapping[str, str]) -> None:
        self.log: list[str] = []
        self._num_read = 0
        self._has_ended = False
        self._news = threading.Condition()
        self._connections: list[http.client.HTTPConnection] = []
        self.process = subprocess.Popen(
            [sys.executable, "-m", "server.cli", "serve", *arguments],
            env={**os.environ, "PORT": "0", **environ},
            stderr=subprocess.PIPE,
            text=True,
        )
        # Read as it comes: a server whose log nobody reads stands still when the pipe is full.
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._reader.start()

    @functools.cached_property
    def port(self) -> int:
        return int(self._find(r"voxloom\.server: listening on http://\S+:(\d+)$", 0)[1][1])

    def read_until(self, pattern: str) -> re.Match[str]:
        """The next line of the log that matches; fails if it ends before."""
        number, match = self._find(pattern, self._num_read)
        self._num_read = number + 1
        return match

    def wait(self) -> int:
        """Read the log to its end; the exit status."""
        self._reader.join(_TIMEOUT_S)
        assert self._has_ended, "somebody still writes the log"
        return self.process.wait(_TIMEOUT_S)

    def _read_log(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._news:
                self.log.append(line)
                self._news.notify_all()
        with self._news:
            self._has_ended = True
            self._news.notify_all()

    def _find(self, pattern: str, first: int) -> tuple[int, re.Match[str]]:
        """Number and match of the first line of the log, from that one on, that matches."""
        with self._news:
            for number in itertools.count(first):
                while number == len(self.log):
                    in_time = not self._has_ended and self._news.wait(_TIMEOUT_S)
                    assert in_time, f"no line with {pattern!r} in:\n{''.join(self.log)}"
                if match := re.search(pattern, self.log[number]):
                    return number, match
        raise AssertionError("numbers do not end")

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
        self._ask_until(series, value, operator.eq)

    def await_count(self, series: str, value: float) -> None:
        """Ask until so many have been counted."""
        self._ask_until(series, value, operator.ge)

    def _ask_until(self, series: str, value: float, fits: Callable[[float, float], bool]) -> None:
        give_up_at = time.monotonic() + _TIMEOUT_S
        while not fits(seen := self.metric(series), value):
            assert time.monotonic() < give_up_at, f"{series} is {seen}, not {value}"
            # Who asks all the time takes the processor from the server.
            time.sleep(_LOOK_EVERY_S)

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
            self.process.wait()
            self._reader.join(_TIMEOUT_S)
            if self._has_ended and self.process.stderr is not None:
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
