"""``POST /v1/chat/completions``."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from server.engine_life import ServedEngine
from server.json_body import check_content_type, validate
from server.large_json import SMALL_BYTES, read_object
from server.routes.realtime import no_cascade
from server.schemas.chat import ChatRequest
from server.schemas.errors import ErrorBody
from server.sse import CONTENT_TYPE as EVENT_STREAM
from server.talk.chat_plan import ChatPlan, plan_chat
from server.talk.chat_stream import ChatResponse, ChatService
from server.uploads import admit_upload, impatient

CHAT_PATH = "/v1/chat/completions"
_ERRORS = (400, 401, 404, 408, 413, 415, 429, 500, 503, 504)
_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The answer, or the events that carry it.",
        "content": {
            "application/json": {"schema": {"type": "object"}},
            EVENT_STREAM: {"schema": {"type": "string"}},
        },
    },
    **{status: {"model": ErrorBody} for status in _ERRORS},
}
_REQUEST_BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/ChatRequest"}}},
    }
}


def chat_routes(served: ServedEngine | None, service: ChatService | None) -> APIRouter:
    """The route, bound to its service; without one it says how to get it."""
    router = APIRouter()

    @router.post(
        CHAT_PATH,
        summary="Go on with a conversation, in text and in speech",
        response_class=Response,
        responses=_RESPONSES,
        openapi_extra=_REQUEST_BODY,
    )
    async def create_completion(request: Request) -> Response:
        if service is None or served is None:
            raise no_cascade()
        check_content_type(request.headers.get("content-type"))
        ticket = await admit_upload(request, served)
        try:
            return ChatResponse(service, await _read_plan(request, service), ticket)
        except BaseException:
            ticket.release()
            raise

    return router


async def _read_plan(request: Request, service: ChatService) -> ChatPlan:
    receive = impatient(request.receive, service.talk.settings.upload_timeout_s, "messages")
    body = await Request(request.scope, receive).body()
    if len(body) > SMALL_BYTES:
        return await asyncio.to_thread(_plan, body, service)
    return _plan(body, service)


def _plan(body: bytes, service: ChatService) -> ChatPlan:
    request = validate(read_object(body), ChatRequest)
    return plan_chat(request, service.talk.engine, service.shelf, service.fetcher)
