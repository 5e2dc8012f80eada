"""``voxloom worker``: run one replica of an engine that is on another machine."""

from __future__ import annotations

import argparse
import os
import sys

from engine.errors import ConfigError
from engine.placement.environment import WORKER_DEFAULTS


def run(arguments: argparse.Namespace) -> int:
    """Become the worker's process. Raises ``ConfigError`` for an address that is none."""
    host, separator, port = arguments.connect.removeprefix("tcp://").rpartition(":")
    if not arguments.connect.startswith("tcp://") or not (host and separator and port.isdigit()):
        raise ConfigError(f"--connect must be tcp://HOST:PORT, got {arguments.connect!r}")
    command = ["--connect", arguments.connect, "--stage", arguments.stage]
    if arguments.key_file is not None:
        command += ["--key-file", arguments.key_file]
    if arguments.rejoin:
        command.append("--rejoin")
    environment = WORKER_DEFAULTS | os.environ
    sys.stdout.flush()
    os.execve(  # noqa: S606 - the arguments are lists, no shell reads them
        sys.executable, [sys.executable, "-m", "worker.main", *command], environment
    )
