"""What a checkpoint's name stands for: a folder of this machine, or an id on a hub."""

from __future__ import annotations

from pathlib import Path

from engine.errors import ConfigError


def check_folder(name: str, where: str) -> bool:
    """Whether it is a folder; else it is a hub's id.

    ``where`` it was written. Raises ``ConfigError`` for a folder that is not there: no hub has an
    id with more than one slash, or that begins with a slash or a dot.
    """
    path = Path(name)
    if path.is_dir():
        return True
    if path.is_absolute() or name.startswith(".") or name.count("/") > 1:
        raise ConfigError(f"{where}: there is no folder {name}")
    return False
