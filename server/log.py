"""The log's configuration."""

from __future__ import annotations

from typing import Any


def log_config(level: str) -> dict[str, Any]:
    """Everything goes to standard error, one line a record."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "line": {
                "()": "engine.trace.FieldFormatter",
                "fmt": "%(asctime)s %(levelname)s %(name)s: %(message)s",
            }
        },
        "handlers": {
            "stderr": {"class": "logging.StreamHandler", "formatter": "line"},
        },
        "loggers": {
            "voxloom": {"handlers": ["stderr"], "level": level.upper(), "propagate": False},
            # uvicorn narrates its start and end at info; what matters of it is a warning.
            "uvicorn": {"handlers": ["stderr"], "level": "WARNING", "propagate": False},
        },
    }
