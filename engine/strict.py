"""Strict conversion of configuration data: unknown keys fail and the error lists the known ones."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import msgspec
import yaml

from engine.errors import ConfigError

T = TypeVar("T", bound=msgspec.Struct)


def load_yaml(path: Path) -> Any:
    """The document of a YAML file. Raises ``ConfigError`` that names the file and the line."""
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid YAML: {error}") from error


def convert(data: Any, kind: type[T], where: str) -> T:
    """``data`` as a ``kind``. Raises ``ConfigError`` that names the key and the allowed ones."""
    check_keys(data, kind, where)
    try:
        return msgspec.convert(data, kind)
    except (msgspec.ValidationError, ValueError) as error:
        raise ConfigError(f"{where}: {error}") from error


def check_keys(data: Any, kind: Any, where: str) -> None:
    """Raise ``ConfigError`` for a key of ``data``, at any depth, that ``kind`` does not have."""
    if get_origin(kind) in (list, tuple) and isinstance(data, list):
        for number, item in enumerate(data):
            check_keys(item, get_args(kind)[0], f"{where}[{number}]")
        return
    structs = [arg for arg in (kind, *get_args(kind)) if _is_struct(arg)]
    if len(structs) != 1 or not isinstance(data, Mapping):
        return
    hints = get_type_hints(structs[0])
    for key, value in data.items():
        if key not in hints:
            known = ", ".join(sorted(hints))
            raise ConfigError(f"{where}: unknown key {key!r}; known keys: {known}")
        check_keys(value, hints[key], f"{where}.{key}")


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)
