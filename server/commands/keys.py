"""``voxloom keys``: make the key files of an engine and of the workers that may join it."""

from __future__ import annotations

import argparse
from pathlib import Path

from engine.placement.keys import create_keys, create_worker_key


def run(arguments: argparse.Namespace) -> int:
    """Make the files and name them. Raises ``ConfigError`` if one exists already."""
    folder = Path(arguments.folder)
    if arguments.action == "new":
        paths = create_keys(folder)
    else:
        paths = create_worker_key(folder, arguments.name)
    for path in paths:
        print(path)
    return 0
