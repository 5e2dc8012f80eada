"""Key files for links over the network: CURVE pairs (Curve25519), written as Z85 text.

    server.key        the engine's pair                             secret
    NAME.key          a worker's pair, and the engine's public key  secret
    allowed-workers   the public keys that may join, one a line, each with a name

A secret file is readable by its owner alone when it is made here; a file that exists is never
overwritten.
"""

from __future__ import annotations

import os
import re
import struct
from pathlib import Path

import msgspec
import zmq
from zmq.utils import z85

from engine.errors import ConfigError
from engine.strict import convert, load_yaml

_NUM_KEY_CHARS = 40  # 32 bytes in Z85, see ZeroMQ RFC 32
SERVER_FILE = "server.key"
ALLOWED_FILE = "allowed-workers"


class ServerKeys(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The engine's own pair."""

    public_key: str
    secret_key: str

    def __post_init__(self) -> None:
        _check(self)

    def __repr__(self) -> str:
        return f"ServerKeys(public_key={self.public_key!r})"


class WorkerKeys(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A worker's pair, and the public key by which it knows the engine."""

    public_key: str
    secret_key: str
    server_key: str

    def __post_init__(self) -> None:
        _check(self)

    def __repr__(self) -> str:
        return f"WorkerKeys(public_key={self.public_key!r})"


def new_server_keys() -> ServerKeys:
    public, secret = zmq.curve_keypair()
    return ServerKeys(public.decode(), secret.decode())


def new_worker_keys(server_public_key: str) -> WorkerKeys:
    public, secret = zmq.curve_keypair()
    return WorkerKeys(public.decode(), secret.decode(), server_public_key)


def read_server_keys(path: Path) -> ServerKeys:
    """Raises ``ConfigError`` that names the file and what is wrong with it."""
    return convert(load_yaml(path), ServerKeys, str(path))


def read_worker_keys(path: Path) -> WorkerKeys:
    """Raises ``ConfigError`` that names the file and what is wrong with it."""
    return convert(load_yaml(path), WorkerKeys, str(path))


def read_allowed_workers(path: Path) -> frozenset[str]:
    """The public keys of a list: a line is a key and a name. Raises ``ConfigError``.

    Blank lines and lines that begin with ``#`` do not count (as the first of five Z85 digits it
    would be worth 84 * 85**4, which is more than 32 bits: no key begins with it).
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error
    keys = [line.split()[0] for line in lines if line.strip() and not line.startswith("#")]
    for key in keys:
        if not _is_key(key):
            raise ConfigError(f"{path}: a line must begin with a public key, got {key[:60]!r}")
    return frozenset(keys)


def create_keys(folder: Path) -> list[Path]:
    """Make a server's key file, a worker's, and the list that allows the worker.

    Raises ``ConfigError`` if one of them exists already.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    server = new_server_keys()
    server_file = folder / SERVER_FILE
    _write_secret(server_file, server)
    _create(
        folder / ALLOWED_FILE, "# public keys of the workers that may join, one a line\n", 0o644
    )
    return [server_file, *create_worker_key(folder, "worker")]


def create_worker_key(folder: Path, name: str) -> list[Path]:
    """Make one more worker's key file, and allow it. Raises ``ConfigError``."""
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name) is None:
        raise ConfigError(f"a worker's name may have letters, digits, '.', '_', '-', got {name!r}")
    keys = new_worker_keys(read_server_keys(folder / SERVER_FILE).public_key)
    key_file, allowed_file = folder / f"{name}.key", folder / ALLOWED_FILE
    _write_secret(key_file, keys)
    with allowed_file.open("a", encoding="utf-8") as file:
        file.write(f"{keys.public_key} {name}\n")
    return [key_file, allowed_file]


def _write_secret(path: Path, keys: ServerKeys | WorkerKeys) -> None:
    # Z85 has neither quotes nor backslashes, so that its text needs no escapes in YAML.
    fields = msgspec.structs.asdict(keys).items()
    _create(path, "".join(f'{name}: "{value}"\n' for name, value in fields), 0o600)


def _create(path: Path, text: str, mode: int) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError as error:
        raise ConfigError(f"{path} exists already; keys are not overwritten") from error
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(text)


def _check(keys: ServerKeys | WorkerKeys) -> None:
    for name, value in msgspec.structs.asdict(keys).items():
        if not _is_key(value):
            raise ValueError(f"{name} must be a key of {_NUM_KEY_CHARS} characters in Z85")


def _is_key(text: str) -> bool:
    if len(text) != _NUM_KEY_CHARS or not text.isascii():
        return False
    try:
        return len(z85.decode(text)) == 32
    except (KeyError, ValueError, struct.error):
        return False
