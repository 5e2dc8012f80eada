"""Commands configure logging for their process; a test must not keep it."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

_CONFIGURED = ("voxloom", "uvicorn")


@pytest.fixture(autouse=True)
def _logging_is_restored() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in _CONFIGURED]
    before = [(logger.level, logger.propagate, list(logger.handlers)) for logger in loggers]
    yield
    for logger, (level, propagate, handlers) in zip(loggers, before, strict=True):
        logger.setLevel(level)
        logger.propagate = propagate
        logger.handlers = handlers
