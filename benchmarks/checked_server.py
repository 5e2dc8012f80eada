"""``voxloom serve``, with the engine's integrity check on request.

After SIGUSR1 it runs ``check_integrity`` and writes ``integrity: ok``, or what is wrong, as one
line to standard error.
"""

from __future__ import annotations

import argparse
import logging.config
import signal
import sys
import threading

from engine.async_omni_engine import AsyncOmniEngine
from engine.pipeline import load_pipeline
from server.app import create_app
from server.log import log_config
from server.run import serve
from server.settings import load_settings


def main() -> None:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pipeline", required=True)
    parser.add_argument("--port", type=int, required=True)
    settings = load_settings(None, overrides=vars(parser.parse_args()))
    logging.config.dictConfig(log_config(settings.server.log_level))
    engine = AsyncOmniEngine(load_pipeline(settings.server.pipeline), settings.engine)
    signal.signal(
        signal.SIGUSR1, lambda *_: threading.Thread(target=_check, args=(engine,)).start()
    )
    sys.exit(serve(create_app(engine, settings.server), settings))


def _check(engine: AsyncOmniEngine) -> None:
    try:
        engine.check_integrity()
    except AssertionError as error:
        print(f"integrity: {error}", file=sys.stderr, flush=True)
    else:
        print("integrity: ok", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
