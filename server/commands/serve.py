"""``voxloom serve``."""

from __future__ import annotations

import argparse
import logging.config
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from engine.async_omni_engine import AsyncOmniEngine
from engine.errors import ConfigError, UnavailableError
from engine.pipeline import PipelineConfig, check_installed, load_pipeline, missing_packages
from server.app import create_app
from server.engine_life import ServedEngine
from server.log import log_config
from server.run import serve
from server.settings import Settings, load_settings
from server.talk.answers import find_stages

_OVERRIDES = ("pipeline", "transcribe", "talk", "host", "port", "log_level", "api_key_file")


# The pipeline that ``transcribe: auto`` means.
_AUTO_TRANSCRIBE = "transcribe"
# The pipeline that ``talk: auto`` means, and the variable with its language model's address.
_AUTO_TALK, _THINKER_URL = "cascade", "VOXLOOM_THINKER_URL"


def run(arguments: argparse.Namespace) -> int:
    """Serve until a signal. Raises ``ConfigError``, or ``UnavailableError`` if it cannot serve."""
    config_file = Path(arguments.config) if arguments.config else None
    overrides = {key: getattr(arguments, key) for key in _OVERRIDES}
    settings = load_settings(config_file, overrides=overrides)
    logging.config.dictConfig(log_config(settings.server.log_level))
    engine = AsyncOmniEngine(load_pipeline(settings.server.pipeline), settings.engine)
    others = transcribing_engine(settings), talking_engine(settings)
    app = create_app(engine, settings.server, *others)
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
    return _served(pipeline, settings, is_lazy=is_auto)


def talking_engine(
    settings: Settings, environ: Mapping[str, str] = os.environ
) -> ServedEngine | None:
    """The engine that holds conversations, as the settings say. Raises ``ConfigError``."""
    wanted = settings.server.talk
    if wanted == "off" or (wanted == "auto" and not environ.get(_THINKER_URL)):
        return None
    pipeline = load_pipeline(_AUTO_TALK if wanted == "auto" else wanted)
    if find_stages(pipeline) is None:
        raise ConfigError(
            f"talk: pipeline {pipeline.name!r} holds no conversations: it needs stages named think "
            "and whisper (a cascade) or hear (an omni model)"
        )
    return _served(pipeline, settings, is_lazy=False)


def _served(pipeline: PipelineConfig, settings: Settings, *, is_lazy: bool) -> ServedEngine:
    check_installed(pipeline)
    # The ports that were asked for are the speaking engine's; this one's log tells where it is.
    config = msgspec.structs.replace(settings.engine, data_port=0, control_port=0)
    return ServedEngine(AsyncOmniEngine(pipeline, config), is_lazy=is_lazy)
