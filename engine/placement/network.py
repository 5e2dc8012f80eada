"""The engine's endpoints for replicas on other machines."""

from __future__ import annotations

import ipaddress
import logging
from pathlib import Path

import zmq

from engine.config import EngineConfig
from engine.errors import ConfigError
from engine.pipeline import PipelineConfig
from engine.placement.curve_server import CurveServer
from engine.placement.keys import new_server_keys, read_server_keys
from engine.placement.spec import LINK_HEARTBEAT_MS, LINK_TIMEOUT_MS

logger = logging.getLogger("voxloom.engine.placement")

_KEY_OPTIONS = "curve_key_file and allowed_workers_file"


class Network:
    """Binds the two lanes to TCP, if a stage of the pipeline needs that.

    Without keys nothing but a loopback address is bound. Replicas that the engine starts itself
    (Ray) get keys made for this engine, so they need no files. Raises ``ConfigError`` that names
    the options when a remote stage has no keys, or a file cannot be used.
    """

    def __init__(self, pipeline: PipelineConfig, config: EngineConfig) -> None:
        kinds = {stage.placement for stage in pipeline.stages}
        self.is_needed = kinds != {"local"}
        self._config = config
        self.curve: CurveServer | None = None
        self.data_endpoint = self.control_endpoint = ""
        if not self.is_needed:
            return
        if config.curve_key_file is not None and config.allowed_workers_file is not None:
            keys = read_server_keys(Path(config.curve_key_file))
            self.curve = CurveServer(keys, Path(config.allowed_workers_file))
        elif "remote" not in kinds:
            self.curve = CurveServer(new_server_keys(), None)
        elif "ray" in kinds:
            raise ConfigError(f"stages placed on ray beside remote ones need {_KEY_OPTIONS}")
        elif not is_loopback(config.bind_host):
            raise ConfigError(
                f"bind_host {config.bind_host!r} lets other machines in: that needs {_KEY_OPTIONS}"
                " (voxloom keys new DIR makes both), or a loopback address such as 127.0.0.1"
            )

    def open(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        data: zmq.Socket[bytes],
        control: zmq.Socket[bytes],
    ) -> None:
        """Bind both lanes. What they were bound to before stays as open as it was.

        Raises ``ConfigError`` if an address cannot be bound.
        """
        if not self.is_needed:
            return
        if self.curve is not None:
            self.curve.start(context)
        self.data_endpoint = self._bind(data, self._config.data_port)
        self.control_endpoint = self._bind(control, self._config.control_port)
        logger.info("workers join at %s", self.control_endpoint)

    def close(self) -> None:
        if self.curve is not None:
            self.curve.stop()

    def _bind(self, socket: zmq.Socket[bytes], port: int) -> str:
        if self.curve is not None:
            self.curve.secure(socket)
        socket.setsockopt(zmq.HEARTBEAT_IVL, LINK_HEARTBEAT_MS)
        socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, LINK_TIMEOUT_MS)
        host = self._config.bind_host
        endpoint = f"tcp://{f'[{host}]' if ':' in host else host}:{port or '*'}"
        socket.setsockopt(zmq.IPV6, ":" in host)
        try:
            socket.bind(endpoint)
        except zmq.ZMQError as error:
            raise ConfigError(f"cannot bind {endpoint}: {error}") from error
        bound = socket.getsockopt(zmq.LAST_ENDPOINT)
        assert isinstance(bound, bytes)
        return bound.rstrip(b"\0").decode()


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach ``host``. A name other than localhost is taken not to."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
