"""Key files: made once, readable by their owner alone, and clear about what is wrong in them."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from engine.errors import ConfigError
from engine.placement.keys import (
    create_keys,
    create_worker_key,
    new_server_keys,
    read_allowed_workers,
    read_server_keys,
    read_worker_keys,
)


def test_the_files_fit_together(tmp_path: Path) -> None:
    create_keys(tmp_path / "keys")
    create_worker_key(tmp_path / "keys", "gpu-2")

    server = read_server_keys(tmp_path / "keys" / "server.key")
    workers = [read_worker_keys(tmp_path / "keys" / f"{n}.key") for n in ("worker", "gpu-2")]
    allowed = read_allowed_workers(tmp_path / "keys" / "allowed-workers")
    assert {worker.server_key for worker in workers} == {server.public_key}
    assert {worker.public_key for worker in workers} == allowed
    assert len({server.public_key, *allowed}) == 3


def test_secrets_are_their_owners_alone(tmp_path: Path) -> None:
    create_keys(tmp_path)

    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes["server.key"] == modes["worker.key"] == 0o600
    server = read_server_keys(tmp_path / "server.key")
    assert server.secret_key not in (tmp_path / "worker.key").read_text()
    assert server.secret_key not in repr(server)
    worker = read_worker_keys(tmp_path / "worker.key")
    assert worker.secret_key not in (tmp_path / "allowed-workers").read_text()
    assert worker.secret_key not in repr(worker)


def test_keys_are_never_overwritten(tmp_path: Path) -> None:
    create_keys(tmp_path)
    before = {path: path.read_text() for path in tmp_path.iterdir()}

    with pytest.raises(ConfigError, match=r"server\.key exists already"):
        create_keys(tmp_path)
    with pytest.raises(ConfigError, match=r"worker\.key exists already"):
        create_worker_key(tmp_path, "worker")
    assert {path: path.read_text() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("name", ["", "..", "a/b", ".hidden", "a b", "a\n"])
def test_a_workers_name_is_a_plain_file_name(name: str, tmp_path: Path) -> None:
    create_keys(tmp_path)

    with pytest.raises(ConfigError, match="name may have"):
        create_worker_key(tmp_path, name)


def test_names_comments_and_blank_lines_are_no_keys(tmp_path: Path) -> None:
    key = new_server_keys().public_key
    path = tmp_path / "allowed"
    path.write_text(f"# comment\n\n#{key} withdrawn\n{key} the first worker\n")

    assert read_allowed_workers(path) == {key}


@pytest.mark.parametrize("key", ["#" * 40, "~" * 40, "ä" * 40, "0" * 39, "0" * 80])
def test_what_is_no_key_is_not_taken_for_one(key: str, tmp_path: Path) -> None:
    path = tmp_path / "server.key"
    path.write_text(f'public_key: "{key}"\nsecret_key: "{key}"\n', encoding="utf-8")

    with pytest.raises(ConfigError, match="public_key must be a key"):
        read_server_keys(path)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("public_key: x\n", "secret_key"),
        ("public_key: x\nsecret_key: y\n", "public_key must be a key of 40 characters"),
        ("publik_key: x\n", "known keys: public_key, secret_key"),
        ("[", "not valid YAML"),
    ],
)
def test_a_bad_key_file_is_named_with_its_fault(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "server.key"
    path.write_text(text)

    with pytest.raises(ConfigError, match=says) as caught:
        read_server_keys(path)
    assert "server.key" in str(caught.value)


def test_a_bad_line_in_the_list_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "allowed"
    path.write_text("not-a-key worker\n")

    with pytest.raises(ConfigError, match="not-a-key"):
        read_allowed_workers(path)
    with pytest.raises(ConfigError, match="cannot read"):
        read_allowed_workers(tmp_path / "missing")
