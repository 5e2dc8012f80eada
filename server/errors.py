"""From an error to an answer: one table, one envelope, on every route."""

from __future__ import annotations

import json
import math
import re
from http import HTTPStatus
from typing import Any, NamedTuple

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from engine import errors


class Answer(NamedTuple):
    """The status and OpenAI's ``type`` for a class of errors."""

    status: int
    type: str


# Looked up along the class's MRO, so that a subclass without a row of its own gets its parent's.
# 499 is the usual status for "the client gave up"; nobody is left to read it.
_ANSWERS: dict[type[Exception], Answer] = {
    errors.RequestError: Answer(400, "invalid_request_error"),
    errors.InvalidRequestError: Answer(400, "invalid_request_error"),
    errors.NotFoundError: Answer(404, "invalid_request_error"),
    errors.UnknownRequestError: Answer(404, "invalid_request_error"),
    errors.DuplicateRequestError: Answer(409, "invalid_request_error"),
    errors.RequestTimeoutError: Answer(408, "invalid_request_error"),
    errors.PayloadTooLargeError: Answer(413, "invalid_request_error"),
    errors.AuthenticationError: Answer(401, "invalid_request_error"),
    errors.MethodNotAllowedError: Answer(405, "invalid_request_error"),
    errors.UnsupportedMediaTypeError: Answer(415, "invalid_request_error"),
    errors.OverloadedError: Answer(429, "requests"),
    errors.UnavailableError: Answer(503, "server_error"),
    errors.DeadlineExceededError: Answer(504, "server_error"),
    errors.RequestAbortedError: Answer(499, "invalid_request_error"),
    errors.VoxloomError: Answer(500, "server_error"),
}
# ElevenLabs' clients read what is wrong from ``detail``.
_DETAILED = re.compile(r"/v1/text-to-speech(/|\Z)|/v[12]/voices(/|\Z)")
# A client may come back this soon after a 503: replicas restart within seconds.
_UNAVAILABLE_RETRY_AFTER_S = 2


def answer_for(error: errors.VoxloomError) -> Answer:
    """The status and type of an error."""
    return next(_ANSWERS[cls] for cls in type(error).__mro__ if cls in _ANSWERS)


def envelope(error: errors.VoxloomError) -> dict[str, Any]:
    """``{"error": {message, type, param, code}}``."""
    return {
        "error": {
            "message": error.message,
            "type": answer_for(error).type,
            "param": error.param,
            "code": error.code,
        }
    }


def envelope_bytes(error: errors.VoxloomError, path: str = "") -> bytes:
    """The envelope as JSON in ASCII: a message may quote a client's text of any kind.

    On the paths of ElevenLabs' API it has ``detail`` with ``status`` (the code) and ``message``.
    """
    data = envelope(error)
    if _DETAILED.match(path):
        data["detail"] = {"status": error.code, **data["error"]}
    return json.dumps(data, separators=(",", ":")).encode("ascii")


def error_headers(error: errors.VoxloomError) -> dict[str, str]:
    """The headers that belong to the status."""
    if isinstance(error, errors.OverloadedError):
        # Whole seconds, and no more than 120: openai-python does not retry at all beyond that.
        return {"retry-after": str(min(120, math.ceil(error.retry_after_s)))}
    if isinstance(error, errors.UnavailableError):
        return {"retry-after": str(_UNAVAILABLE_RETRY_AFTER_S)}
    if isinstance(error, errors.AuthenticationError):
        return {"www-authenticate": "Bearer"}
    return {}


def error_response(
    error: errors.VoxloomError, path: str = "", extra_headers: dict[str, str] | None = None
) -> Response:
    """The answer to a request for ``path`` that failed before its first byte."""
    headers = error_headers(error) | (extra_headers or {})
    body = envelope_bytes(error, path)
    return Response(body, answer_for(error).status, headers, "application/json")


def internal_error(request_id: str) -> errors.VoxloomError:
    """What a client may know of a bug: how to find it in the log, nothing else."""
    return errors.VoxloomError(f"internal error; the server's log has it under {request_id}")


async def handle_voxloom_error(request: Request, error: Exception) -> Response:
    """Starlette's handler for the error tree."""
    assert isinstance(error, errors.VoxloomError)
    return error_response(error, request.url.path)


async def handle_http_exception(request: Request, error: Exception) -> Response:
    """Starlette's handler for what the router itself raises: 404 and 405."""
    assert isinstance(error, HTTPException)
    headers = dict(error.headers or {})
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        return error_response(_wrong_method(request, headers), request.url.path, headers)
    if error.status_code == HTTPStatus.NOT_FOUND:
        path = _shown(request.url.path)
        unknown = errors.NotFoundError(f"no such path: {path}", code="unknown_url")
        return error_response(unknown, request.url.path)
    return error_response(_other(error), request.url.path, headers)


async def handle_validation_error(request: Request, error: Exception) -> Response:
    """For parameters that FastAPI itself checks: 400, about the first one that is wrong."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    param = ".".join(str(part) for part in first["loc"][1:]) or None
    wrong = errors.InvalidRequestError(f"{param}: {first['msg']}", param=param)
    return error_response(wrong, request.url.path)


def _wrong_method(request: Request, headers: dict[str, str]) -> errors.VoxloomError:
    allowed = {key.lower(): value for key, value in headers.items()}.get("allow", "another method")
    return errors.MethodNotAllowedError(
        f"{request.method} is not allowed on {_shown(request.url.path)}; allowed: {allowed}"
    )


def _other(error: HTTPException) -> errors.VoxloomError:
    if error.status_code < HTTPStatus.INTERNAL_SERVER_ERROR:
        return errors.InvalidRequestError(_shown(str(error.detail)))
    return errors.UnavailableError(HTTPStatus(error.status_code).phrase)


def _shown(text: str, limit: int = 100) -> str:
    """A client's text, short enough to send back."""
    return text if len(text) <= limit else f"{text[:limit]}..."
