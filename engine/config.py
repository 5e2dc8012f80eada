"""The engine's own settings. Model settings live in the pipeline file."""

from __future__ import annotations

import msgspec


class EngineConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Limits and times of the engine.

    ``max_running`` requests are in the stages at once and ``max_waiting`` more queue for them;
    beyond both a caller gets ``OverloadedError``. ``max_buffered_audio_s`` of a request's audio may
    wait for its caller before the request is paused in the worker. A replica that answers no ping
    for ``heartbeat_timeout_s`` is evicted.
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

    def __post_init__(self) -> None:
        if self.max_running < 1 or self.max_waiting < 0 or self.max_restarts < 0:
            raise ValueError("max_running must be at least 1, max_waiting and max_restarts 0")
        for key in (
            "max_buffered_audio_s",
            "heartbeat_interval_s",
            "heartbeat_timeout_s",
            "drain_timeout_s",
            "restart_backoff_s",
            "max_restart_backoff_s",
        ):
            if not getattr(self, key) > 0:
                raise ValueError(f"{key} must be above 0")
