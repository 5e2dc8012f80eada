"""What every request passes on its way in, as plain ASGI.

From the outside in: ``Cors`` (so that errors carry its headers too), ``RequestScope`` (id, log,
metrics, last resort), ``CanonicalPaths``, ``ApiKeyGate``, ``BodyLimit``. Each works for WebSockets
as well, or lets them through.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engine.errors import PayloadTooLargeError, VoxloomError
from server.auth import ApiKeys
from server.context import RequestContext, context_of, note_route, open_context
from server.errors import error_response, internal_error
from server.metrics import ServerMetrics

access_log = logging.getLogger("voxloom.access")
log = logging.getLogger("voxloom.server")

EXPOSED_HEADERS = (
    "content-disposition, openai-processing-ms, retry-after, x-request-id, x-voxloom-warnings"
)
_PREFLIGHT_MAX_AGE_S = 600
# API paths that are served with and without /v1: clients differ in what they call a base URL.
_UNVERSIONED = ("/audio", "/models", "/realtime", "/chat", "/text-to-speech", "/voices")
_PROBES = ("/health", "/ready", "/metrics")
_VERSIONED_PROBES = tuple(f"/v1{path}" for path in _PROBES)
# After a body over the limit, this much more is read and thrown away, so that a client which sends
# first and listens later gets its 413 rather than a reset connection.
_MAX_DISCARDED_BYTES = 8 * 1024 * 1024


class StreamBrokenError(Exception):
    """A response failed after its first byte; its connection must be closed short of its end."""


class Cors:
    """Cross-origin headers on every answer, and the answer to preflights. Never credentials."""

    def __init__(self, app: ASGIApp, origins: Sequence[str]) -> None:
        self._app = app
        self._origins = frozenset(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        origin = Headers(scope=scope).get("origin") if scope["type"] == "http" else None
        if origin is None or not self._origins & {"*", origin}:
            await self._app(scope, receive, send)
        elif scope["method"] == "OPTIONS":
            await self._preflight(scope, origin)(scope, receive, send)
        else:
            await self._app(scope, receive, self._with_headers(send, origin))

    def _with_headers(self, send: Send, origin: str) -> Send:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(self._allowed_origin(origin))
                headers["access-control-expose-headers"] = EXPOSED_HEADERS
            await send(message)

        return send_with_headers

    def _allowed_origin(self, origin: str) -> dict[str, str]:
        if "*" in self._origins:
            return {"access-control-allow-origin": "*"}
        return {"access-control-allow-origin": origin, "vary": "origin"}

    def _preflight(self, scope: Scope, origin: str) -> Response:
        # "*" does not cover Authorization, so the headers that were asked for are named.
        asked = Headers(scope=scope).get("access-control-request-headers", "")
        headers = {
            **self._allowed_origin(origin),
            "access-control-allow-methods": "GET, HEAD, POST, DELETE, OPTIONS",
            "access-control-allow-headers": asked or "authorization, content-type",
            "access-control-max-age": str(_PREFLIGHT_MAX_AGE_S),
        }
        return Response(status_code=204, headers=headers)


class RequestScope:
    """Gives a request its context, logs and counts it, and answers what nothing inside answered."""

    def __init__(self, app: ASGIApp, metrics: ServerMetrics, log_requests: bool) -> None:
        self._app = app
        self._metrics = metrics
        self._log_requests = log_requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        context = open_context(scope)
        tracked = _tracked(send, context)
        try:
            await self._app(scope, receive, tracked)
        except StreamBrokenError:
            context.outcome = "broken"
        except Exception as error:
            await self._answer(error, scope, receive, tracked)
        finally:
            self._close(scope, context)

    async def _answer(self, error: Exception, scope: Scope, receive: Receive, send: Send) -> None:
        context = context_of(scope)
        if not isinstance(error, VoxloomError):
            log.error("%s failed", context.request_id, exc_info=error)
            error = internal_error(context.request_id)
        if context.status is not None:
            # Returning without the end of the body makes the HTTP server close the connection.
            context.outcome = "broken"
        elif _can_answer(scope):
            await error_response(error, scope["path"])(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008, "reason": error.message[:100]})

    def _close(self, scope: Scope, context: RequestContext) -> None:
        outcome = context.final_outcome()
        self._metrics.count_request(context.route, outcome)
        if self._log_requests:
            method = scope.get("method", "WEBSOCKET")
            # Probes come every few seconds for ever; only one that fails is news.
            is_routine = context.route in _PROBES and outcome == "ok"
            access_log.log(
                logging.DEBUG if is_routine else logging.INFO,
                '%s "%s %s" %s %s %.1f ms',
                context.request_id,
                method,
                _printable(scope["path"]),
                context.status or "-",
                outcome,
                context.elapsed_ms,
            )


def _tracked(send: Send, context: RequestContext) -> Send:
    async def tracked(message: Message) -> None:
        if message["type"] in ("http.response.start", "websocket.http.response.start"):
            context.status = message["status"]
            headers = MutableHeaders(scope=message)
            headers["x-request-id"] = context.request_id
            headers["openai-processing-ms"] = str(round(context.elapsed_ms))
        elif message["type"] == "websocket.accept":
            context.status = 101
        await send(message)

    return tracked


def _can_answer(scope: Scope) -> bool:
    """A WebSocket can be refused with a real response only if the HTTP server offers it."""
    return scope["type"] == "http" or "websocket.http.response" in scope.get("extensions", {})


def _printable(path: str) -> str:
    """A path for a log line: no control characters, no line breaks, bounded."""
    return ascii(path[:200])[1:-1]


class CanonicalPaths:
    """One name for each path: with ``/v1``, without a trailing slash. HEAD is routed as GET."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        # A copy: the HTTP server drops the body of a HEAD by looking at its own scope.
        routed = dict(scope, path=canonical_path(scope["path"]))
        if scope.get("method") == "HEAD":
            routed["method"] = "GET"
        try:
            await self._app(routed, receive, send)
        finally:
            note_route(scope, routed)


def canonical_path(path: str) -> str:
    """``/audio/speech/`` and ``/v1/audio/speech`` are both ``/v1/audio/speech``."""
    if len(path) > 1 and path.endswith("/"):
        path = path[:-1]
    if path in _VERSIONED_PROBES:
        return path.removeprefix("/v1")
    if path.startswith(tuple(f"{prefix}/" for prefix in _UNVERSIONED)) or path in _UNVERSIONED:
        return f"/v1{path}"
    return path


class ApiKeyGate:
    """Lets no request without a key past, 404s included."""

    def __init__(self, app: ASGIApp, keys: ApiKeys) -> None:
        self._app = app
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket"):
            self._keys.check(scope)
        await self._app(scope, receive, send)


class BodyLimit:
    """Bounds a request's body, whether or not its length was declared.

    ``bounds`` has the paths whose bodies hold audio, each with its own bound and the field that is
    to blame for a larger one.
    """

    def __init__(
        self, app: ASGIApp, max_bytes: int, bounds: Mapping[str, tuple[int, str]] | None = None
    ) -> None:
        self._app = app
        self._max_bytes = max_bytes
        self._bounds = bounds or {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            receive = self._limited(receive, scope)
        await self._app(scope, receive, send)

    def _limited(self, receive: Receive, scope: Scope) -> Receive:
        num_bytes = 0
        max_bytes, param = self._bounds.get(scope["path"], (self._max_bytes, None))
        too_large = PayloadTooLargeError(
            f"the body may hold at most {max_bytes} bytes", param=param
        )

        async def limited() -> Message:
            nonlocal num_bytes
            if num_bytes == 0 and _declared_length(scope) > max_bytes:
                await discard_body(scope, receive)
                raise too_large
            message = await receive()
            num_bytes += len(message.get("body", b""))
            if num_bytes > max_bytes:
                if message.get("more_body"):
                    await discard_body(scope, receive)
                raise too_large
            return message

        return limited


async def discard_body(scope: Scope, receive: Receive) -> None:
    """Read a body that is refused, up to a bound, and throw it away.

    A client that waits for a word before it sends (``Expect: 100-continue``) gets its answer first.
    """
    if Headers(scope=scope).get("expect", "").lower() == "100-continue":
        return
    num_bytes = 0
    while num_bytes < _MAX_DISCARDED_BYTES:
        message = await receive()
        num_bytes += len(message.get("body", b""))
        if not message.get("more_body"):
            return


def _declared_length(scope: Scope) -> int:
    text = Headers(scope=scope).get("content-length", "")
    return int(text) if text.isdecimal() and len(text) < 20 else 0
