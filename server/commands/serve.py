"""``voxloom serve``."""

from __future__ import annotations

import argparse
import logging.config
from pathlib import Path

import msgspec

from engine.async_omni_engine import AsyncOmniEngine
from engine.errors import UnavailableError
from engine.pipeline import check_installed, load_pipeline, missing_packages
from server.app import create_app
from server.engine_life import ServedEngine
from server.log import log_config
from server.run import serve
from server.settings import Settings, load_settings

_OVERRIDES = ("pipeline", "transcribe", "host", "port", "log_level", "api_key_file")


# The pipeline that ``transcribe: auto`` means.
_AUTO_TRANSCRIBE = "transcribe"


def run(arguments: argparse.Namespace) -> int:
    """Serve until a signal. Raises ``ConfigError``, or ``UnavailableError`` if it cannot serve."""
    config_file = Path(arguments.config) if arguments.config else None
    overrides = {key: getattr(arguments, key) for key in _OVERRIDES}
    settings = load_settings(config_file, overrides=overrides)
    logging.config.dictConfig(log_config(settings.server.log_level))
    engine = AsyncOmniEngine(load_pipeline(settings.server.pipeline), settings.engine)
    app = create_app(engine, settings.server, transcribing_engine(settings))
    failure = serve(app, settings)
    if failure is not None:
        raise UnavailableError(failure)
    return 0


def transcribing_engine(settings: Settings) -> ServedEngine | None:
    """The engine that writes down speech, as the settings say. Raises ``ConfigError``."""
    wanted = settings.server.transcribe
    if wanted == "off":
        return None
    is_auto = wanted == "auto"
    pipeline = load_pipeline(_AUTO_TRANSCRIBE if is_auto else wanted)
    if is_auto and missing_packages(pipeline):
        return None
    check_installed(pipeline)
    # The ports that were asked for are the speaking engine's; this one's log tells where it is.
    config = msgspec.structs.replace(settings.engine, data_port=0, control_port=0)
    return ServedEngine(AsyncOmniEngine(pipeline, config), is_lazy=is_auto)
