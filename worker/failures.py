"""One request's failure, as the message that tells of it."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from engine.errors import ConfigError, VoxloomError
from engine.messages import StageError
from engine.trace import log_fields

logger = logging.getLogger("voxloom.worker")

# Of a library's message: some list every weight of a model.
_MAX_CHARS = 500


def stage_error(
    request_id: str,
    error: BaseException,
    unit: int | None = None,
    trace_headers: Mapping[str, str] | None = None,
) -> StageError:
    """What the caller is told: the error's own words if they are meant for it, else its name."""
    if isinstance(error, VoxloomError):
        return StageError(request_id, error.code, error.message, error.param, unit)
    fields = log_fields(request_id, trace_headers or {})
    logger.error("a request failed", exc_info=error, extra=fields)
    return StageError(request_id, "stage_failed", describe(error), unit=unit)


def describe(error: BaseException) -> str:
    """What a client may read: a sentence that was written for people, or the kind of error."""
    reason = str(error) if isinstance(error, ConfigError) else type(error).__name__
    return f"the stage failed at this request: {reason}"


def tell_start_failure(replica_id: str, error: Exception) -> str:
    """Why a replica cannot load its model, in one line; the log has it with where it came from.

    What was foreseen needs no traceback, but that of another library's error behind it.
    """
    is_foreseen = isinstance(error, ConfigError)
    reason = str(error) if is_foreseen else f"{type(error).__name__}: {one_line(error)}"
    trace = error.__cause__ if is_foreseen else error
    logger.error("replica %s cannot load its model: %s", replica_id, reason, exc_info=trace)
    return reason


def one_line(error: BaseException) -> str:
    """A library's own words, of a length to be read, or the kind of error where it has none."""
    return " ".join(str(error).split())[:_MAX_CHARS] or type(error).__name__
