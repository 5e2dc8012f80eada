"""What belongs to one HTTP request or WebSocket, from its first byte to its log line."""

from __future__ import annotations

import re
import time
import uuid
from dataclasses import dataclass, field
from itertools import count
from typing import TypeAlias, cast

from starlette.types import Scope

from engine.trace import current_trace, trace_headers

Outcome: TypeAlias = str

_KEY = "voxloom.context"
_NO_ROUTE = "unmatched"
# A client's id goes into headers and logs: short, and of characters that are safe in both.
_SANE_ID = re.compile(rb"[A-Za-z0-9._:-]{1,128}\Z")
_numbers = count(1)


@dataclass(slots=True)
class RequestContext:
    """One request's identity and fate.

    ``status`` is set when the response has started; ``outcome`` where the status alone does not
    tell how it ended. Times are of ``time.monotonic``, in seconds.
    """

    request_id: str
    started_at: float = field(default_factory=time.monotonic)
    route: str = _NO_ROUTE
    status: int | None = None
    outcome: Outcome | None = None

    @property
    def elapsed_ms(self) -> float:
        return (time.monotonic() - self.started_at) * 1000

    def engine_request_id(self) -> str:
        """An id for the engine: unique in this process even if clients repeat theirs."""
        return f"{self.request_id}.{next(_numbers)}"

    def final_outcome(self) -> Outcome:
        """One of ``ok client_error overloaded server_error disconnected broken``."""
        if self.outcome is not None:
            return self.outcome
        if self.status is None:
            return "disconnected"
        if self.status == 429:
            return "overloaded"
        if self.status >= 500:
            return "server_error"
        return "client_error" if self.status >= 400 else "ok"


def open_context(scope: Scope) -> RequestContext:
    """A new context for ``scope``: with the client's ``x-request-id`` if that is sane.

    What the engine is asked for from here on is part of the client's trace.
    """
    given = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"")
    sane = _SANE_ID.match(given) is not None
    context = RequestContext(given.decode("ascii") if sane else f"req_{uuid.uuid4().hex}")
    scope[_KEY] = context
    current_trace.set(trace_headers(scope["headers"]))
    return context


def context_of(scope: Scope) -> RequestContext:
    """The context of a request that came through ``RequestScope``."""
    return cast(RequestContext, scope[_KEY])


def note_route(scope: Scope, routed: Scope) -> None:
    """Remember the path template that the router found: a metric's label must be bounded."""
    context_of(scope).route = getattr(routed.get("route"), "path", _NO_ROUTE)
