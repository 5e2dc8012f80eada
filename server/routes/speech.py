"""``POST /v1/audio/speech``."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from server.audio.formats import CONTENT_TYPES
from server.catalog import ModelCatalog
from server.json_body import read_model
from server.schemas.errors import ErrorBody
from server.schemas.speech import SpeechRequest
from server.speech_plan import plan_speech
from server.speech_stream import SpeechResponse, SpeechService
from server.sse import CONTENT_TYPE as EVENT_STREAM

_ERRORS = (400, 401, 404, 413, 415, 429, 500, 503, 504)
_BINARY = {"schema": {"type": "string", "format": "binary"}}
_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The audio, or the events that carry it.",
        "content": {
            **dict.fromkeys(CONTENT_TYPES.values(), _BINARY),
            EVENT_STREAM: {"schema": {"type": "string"}},
            "application/json": {"schema": {"$ref": "#/components/schemas/SpeechWithWords"}},
        },
    },
    **{status: {"model": ErrorBody} for status in _ERRORS},
}
# The body is read by ``read_model``, so FastAPI has to be told of its schema.
_REQUEST_BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/SpeechRequest"}}},
    }
}


def speech_routes(service: SpeechService, catalog: ModelCatalog) -> APIRouter:
    """The route, bound to its service."""
    router = APIRouter()

    @router.post(
        "/v1/audio/speech",
        summary="Speak a text",
        response_class=Response,
        responses=_RESPONSES,
        openapi_extra=_REQUEST_BODY,
    )
    async def create_speech(request: Request) -> Response:
        body = await read_model(request, SpeechRequest)
        plan = plan_speech(body, service.engine, catalog, service.settings.max_input_chars)
        return SpeechResponse(service, plan)

    return router
