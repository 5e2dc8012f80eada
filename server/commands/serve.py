"""``voxloom serve``."""

from __future__ import annotations

import argparse
import logging.config
from pathlib import Path

from engine.async_omni_engine import AsyncOmniEngine
from engine.errors import UnavailableError
from engine.pipeline import load_pipeline
from server.app import create_app
from server.log import log_config
from server.run import serve
from server.settings import load_settings

_OVERRIDES = ("pipeline", "host", "port", "log_level", "api_key_file")


def run(arguments: argparse.Namespace) -> int:
    """Serve until a signal. Raises ``ConfigError``, or ``UnavailableError`` if it cannot serve."""
    config_file = Path(arguments.config) if arguments.config else None
    overrides = {key: getattr(arguments, key) for key in _OVERRIDES}
    settings = load_settings(config_file, overrides=overrides)
    logging.config.dictConfig(log_config(settings.server.log_level))
    engine = AsyncOmniEngine(load_pipeline(settings.server.pipeline), settings.engine)
    failure = serve(create_app(engine, settings.server), settings)
    if failure is not None:
        raise UnavailableError(failure)
    return 0
