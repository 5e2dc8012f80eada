"""W3C trace context: the headers that travel with a request, and the fields that log lines carry.

https://www.w3.org/TR/trace-context/ gives the form of ``traceparent``.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from types import MappingProxyType

TRACE_HEADERS = ("traceparent", "tracestate")
_NONE: Mapping[str, str] = MappingProxyType({})
# What a request is given that names no headers itself: those of the call that it is part of.
current_trace: ContextVar[Mapping[str, str]] = ContextVar("current_trace", default=_NONE)

_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?\Z")
_NO_TRACE = "0" * 32
_FIELDS = ("request_id", "trace_id")


def trace_headers(raw: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Those of an HTTP request's headers (names in lower case) that say what trace it is of."""
    texts = ((name.decode("latin-1"), value.decode("latin-1")) for name, value in raw)
    return {name: value for name, value in texts if name in TRACE_HEADERS}


def trace_id(headers: Mapping[str, str]) -> str | None:
    """The trace of a request, 32 hex digits; None without a valid ``traceparent``."""
    match = _TRACEPARENT.match(headers.get("traceparent", "").strip())
    return match.group(1) if match and match.group(1) != _NO_TRACE else None


def log_fields(request_id: str, headers: Mapping[str, str]) -> dict[str, str]:
    """``extra`` for a log record about a request."""
    found = trace_id(headers)
    return {"request_id": request_id} | ({"trace_id": found} if found else {})


class FieldFormatter(logging.Formatter):
    """Ends the first line of a record with its request and trace, if it has them."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        fields = [f"{name}={getattr(record, name)}" for name in _FIELDS if hasattr(record, name)]
        return " ".join([super().formatMessage(record), *fields])
