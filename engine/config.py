"""The engine's own settings. Model settings live in the pipeline file."""

from __future__ import annotations

import msgspec


class EngineConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Limits and times of the engine.

    ``max_running`` requests are in the stages at once and ``max_waiting`` more queue for them;
    beyond both a caller gets ``OverloadedError``. Of a request's audio ``max_buffered_audio_s``,
    and what one step makes on top, may wait for its caller; then the request waits in the worker. A
    replica that answers no ping for ``heartbeat_timeout_s`` is evicted.

    The rest is for replicas on other machines. Both lanes are bound to ``bind_host``; port 0 takes
    any free one. ``curve_key_file`` holds the engine's keys and ``allowed_workers_file`` the public
    keys of the workers that may join. Ray's replicas come back to ``advertise_host`` (None:
    ``bind_host``, or this machine's address on Ray if that is a wildcard); ``ray_address`` is the
    cluster's (None: the one of this machine, else a new one). A replica that Ray has not placed
    within ``ray_placement_timeout_s`` has failed to start.
    """

    max_running: int = 256
    max_waiting: int = 1024
    max_buffered_audio_s: float = 10.0
    heartbeat_interval_s: float = 1.0
    heartbeat_timeout_s: float = 10.0
    drain_timeout_s: float = 30.0
    restart_backoff_s: float = 0.5
    max_restart_backoff_s: float = 30.0
    max_restarts: int = 10
    bind_host: str = "127.0.0.1"
    data_port: int = 0
    control_port: int = 0
    curve_key_file: str | None = None
    allowed_workers_file: str | None = None
    advertise_host: str | None = None
    ray_address: str | None = None
    ray_placement_timeout_s: float = 120.0

    def __post_init__(self) -> None:
        if self.max_running < 1 or self.max_waiting < 0 or self.max_restarts < 0:
            raise ValueError("max_running must be at least 1, max_waiting and max_restarts 0")
        for key in ("data_port", "control_port"):
            if not 0 <= getattr(self, key) <= 65535:
                raise ValueError(f"{key} must be from 0 to 65535, got {getattr(self, key)}")
        if (self.curve_key_file is None) != (self.allowed_workers_file is None):
            raise ValueError("curve_key_file and allowed_workers_file go together")
        for key in (
            "max_buffered_audio_s",
            "heartbeat_interval_s",
            "heartbeat_timeout_s",
            "drain_timeout_s",
            "restart_backoff_s",
            "max_restart_backoff_s",
            "ray_placement_timeout_s",
        ):
            if not getattr(self, key) > 0:
                raise ValueError(f"{key} must be above 0")
