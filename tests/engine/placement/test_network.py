"""What the engine opens to other machines, and what it asks for before."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import zmq

from engine.config import EngineConfig
from engine.errors import ConfigError
from engine.pipeline import PipelineConfig, PlacementKind, StageConfig
from engine.placement.keys import create_keys, create_worker_key, read_worker_keys
from engine.placement.network import Network, is_loopback


def pipeline(*kinds: PlacementKind) -> PipelineConfig:
    stages = [
        StageConfig(name=f"s{n}", model="worker.models.sine.notes:load", placement=kind)
        for n, kind in enumerate(kinds)
    ]
    return PipelineConfig(name="p", description="d", stages=tuple(stages))


def keyed(folder: Path, **fields: str) -> EngineConfig:
    create_keys(folder)
    files = {
        "curve_key_file": str(folder / "server.key"),
        "allowed_workers_file": str(folder / "allowed-workers"),
    }
    return msgspec.convert(files | fields, EngineConfig)


def test_without_keys_only_loopback_is_bound() -> None:
    with pytest.raises(ConfigError, match="curve_key_file and allowed_workers_file"):
        Network(pipeline("local", "remote"), EngineConfig(bind_host="0.0.0.0"))
    assert Network(pipeline("local", "remote"), EngineConfig()).curve is None


@pytest.mark.parametrize("host", ["192.168.1.5", "::", "example.org", "*", ""])
def test_whatever_is_not_loopback_needs_keys(host: str) -> None:
    with pytest.raises(ConfigError, match="bind_host"):
        Network(pipeline("remote"), EngineConfig(bind_host=host))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_loopback_is_recognised(host: str) -> None:
    assert is_loopback(host)


def test_both_key_files_or_none() -> None:
    with pytest.raises(ValueError, match="curve_key_file and allowed_workers_file go together"):
        EngineConfig(curve_key_file="x")


def test_ray_beside_remote_needs_key_files(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="curve_key_file and allowed_workers_file"):
        Network(pipeline("ray", "remote"), EngineConfig())
    assert Network(pipeline("ray", "remote"), keyed(tmp_path)).curve is not None


def test_a_ray_stage_is_never_without_keys() -> None:
    assert Network(pipeline("ray"), EngineConfig(bind_host="0.0.0.0")).curve is not None


def test_a_local_pipeline_opens_no_port(tmp_path: Path) -> None:
    assert not Network(pipeline("local", "local"), EngineConfig(bind_host="0.0.0.0")).is_needed


def test_a_key_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    config = EngineConfig(curve_key_file="/nowhere/s", allowed_workers_file="/nowhere/a")

    with pytest.raises(ConfigError, match="/nowhere/s"):
        Network(pipeline("remote"), config)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_both_lanes_get_a_port_of_their_own(host: str, tmp_path: Path) -> None:
    network = Network(pipeline("remote"), keyed(tmp_path, bind_host=host))
    with zmq.Context() as context:
        data, control = context.socket(zmq.ROUTER), context.socket(zmq.ROUTER)
        network.open(context, data, control)
        endpoints = {network.data_endpoint, network.control_endpoint}
        network.close()
        data.close(0)
        control.close(0)

    assert len(endpoints) == 2
    assert all(host in endpoint for endpoint in endpoints)


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with zmq.Context() as context:
        data, control = context.socket(zmq.ROUTER), context.socket(zmq.ROUTER)
        port = control.bind_to_random_port("tcp://127.0.0.1")
        network = Network(pipeline("remote"), EngineConfig(data_port=port))
        with pytest.raises(ConfigError, match=f"127.0.0.1:{port}"):
            network.open(context, data, control)
        data.close(0)
        control.close(0)


def test_a_key_added_to_the_file_counts_at_once_and_so_does_its_removal(tmp_path: Path) -> None:
    network = Network(pipeline("remote"), keyed(tmp_path))
    assert network.curve is not None
    create_worker_key(tmp_path, "late")
    key = read_worker_keys(tmp_path / "late.key").public_key.encode()

    assert network.curve.callback("voxloom", key)
    (tmp_path / "allowed-workers").write_text("")
    assert not network.curve.callback("voxloom", key)
    (tmp_path / "allowed-workers").unlink()
    assert not network.curve.callback("voxloom", key)


def test_keys_given_to_a_replica_end_with_it() -> None:
    curve = Network(pipeline("ray"), EngineConfig()).curve
    assert curve is not None
    keys = {name: curve.issue(name).public_key.encode() for name in ("a", "b")}

    curve.revoke("a")

    assert not curve.callback("voxloom", keys["a"])
    assert curve.callback("voxloom", keys["b"])
