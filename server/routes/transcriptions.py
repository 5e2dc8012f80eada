"""``POST /v1/audio/transcriptions`` and ``/v1/audio/translations``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive

from engine.errors import NotFoundError, RequestTimeoutError, VoxloomError
from server.catalog import ModelCatalog
from server.engine_port import Ticket
from server.form_body import read_form
from server.json_body import RequestModel, validate
from server.middleware import discard_body
from server.schemas.errors import ErrorBody
from server.schemas.transcriptions import LIST_FIELDS, TranscriptionForm, TranslationForm
from server.sse import CONTENT_TYPE as EVENT_STREAM
from server.transcription_plan import TranscriptionPlan, plan_transcription, plan_translation
from server.transcription_stream import TranscriptionResponse, TranscriptionService

# The bodies here are files, with a limit of their own.
UPLOAD_PATHS = ("/v1/audio/transcriptions", "/v1/audio/translations")
# Modems were faster. Counted from the first byte on, with ``upload_timeout_s`` to begin with.
_MIN_UPLOAD_BYTES_PER_S = 4096
_ERRORS = (400, 401, 404, 408, 413, 415, 429, 500, 503, 504)
_TEXT = {"schema": {"type": "string"}}
_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The text, or the events that carry it.",
        "content": {
            "application/json": {"schema": {"type": "object"}},
            "text/plain": _TEXT,
            "text/vtt": _TEXT,
            EVENT_STREAM: _TEXT,
        },
    },
    **{status: {"model": ErrorBody} for status in _ERRORS},
}

Form = TypeVar("Form", bound=RequestModel)


def transcription_routes(
    service: TranscriptionService | None, catalog: ModelCatalog | None
) -> APIRouter:
    """The routes, bound to their service; without one they say how to get it."""
    router = APIRouter()

    @router.post(
        UPLOAD_PATHS[0],
        summary="Write down speech",
        response_class=Response,
        responses=_RESPONSES,
        openapi_extra=_body("TranscriptionForm"),
    )
    async def create_transcription(request: Request) -> Response:
        return await _respond(request, service, catalog, TranscriptionForm, plan_transcription)

    @router.post(
        UPLOAD_PATHS[1],
        summary="Write down speech in English",
        response_class=Response,
        responses=_RESPONSES,
        openapi_extra=_body("TranslationForm"),
    )
    async def create_translation(request: Request) -> Response:
        return await _respond(request, service, catalog, TranslationForm, plan_translation)

    return router


async def _respond(
    request: Request,
    service: TranscriptionService | None,
    catalog: ModelCatalog | None,
    kind: type[Form],
    plan: Callable[[Form, ModelCatalog], TranscriptionPlan],
) -> Response:
    if service is None or catalog is None:
        raise NotFoundError(
            "this server does not write down speech: install voxloom[asr], or start it with "
            "--transcribe",
            param="model",
            code="model_not_found",
        )
    ticket = await _admit(request, service)
    try:
        receive = _impatient(request.receive, service.settings.upload_timeout_s)
        form = await read_form(Request(request.scope, receive), LIST_FIELDS)
        try:
            planned = plan(validate(form.fields, kind), catalog)
            return TranscriptionResponse(service, planned, form.file, ticket)
        except BaseException:
            form.file.close()
            raise
    except BaseException:
        ticket.release()
        raise


async def _admit(request: Request, service: TranscriptionService) -> Ticket:
    """A ticket, before any of the upload is kept: so there are never more on the disk than may be
    running or waiting.
    """
    engine = await service.served.ready()
    try:
        ticket: Ticket = engine.admit()
    except VoxloomError:
        await discard_body(request.scope, request.receive)
        raise
    return ticket


def _impatient(receive: Receive, timeout_s: float) -> Receive:
    """An upload that stands still, or trickles, holds a ticket that others could use."""
    loop = asyncio.get_running_loop()
    slow_at = loop.time() + timeout_s

    async def next_part() -> Message:
        nonlocal slow_at
        silent_at = loop.time() + timeout_s
        try:
            async with asyncio.timeout_at(min(silent_at, slow_at)):
                message = await receive()
        except TimeoutError:
            if silent_at <= slow_at:
                what = f"nothing of the upload came for {timeout_s:g} s"
            else:
                what = f"the upload came at less than {_MIN_UPLOAD_BYTES_PER_S} bytes a second"
            raise RequestTimeoutError(what, param="file") from None
        slow_at += len(message.get("body", b"")) / _MIN_UPLOAD_BYTES_PER_S
        return message

    return next_part


def _body(schema: str) -> dict[str, Any]:
    """The form, of which FastAPI has to be told, with its file."""
    file = {"type": "string", "format": "binary", "description": "The recording."}
    fields = {"$ref": f"#/components/schemas/{schema}"}
    form = {
        "allOf": [fields, {"type": "object", "required": ["file"], "properties": {"file": file}}]
    }
    return {"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": form}}}}
