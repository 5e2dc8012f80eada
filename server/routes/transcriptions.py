"""``POST /v1/audio/transcriptions`` and ``/v1/audio/translations``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from engine.errors import NotFoundError
from server.catalog import ModelCatalog
from server.form_body import read_form
from server.json_body import RequestModel, validate
from server.schemas.errors import ErrorBody
from server.schemas.transcriptions import LIST_FIELDS, TranscriptionForm, TranslationForm
from server.sse import CONTENT_TYPE as EVENT_STREAM
from server.transcriber import recording_prompt
from server.transcription_plan import TranscriptionPlan, plan_transcription, plan_translation
from server.transcription_stream import TranscriptionResponse, TranscriptionService
from server.uploads import admit_upload, impatient

# The bodies here are files, with a limit of their own.
UPLOAD_PATHS = ("/v1/audio/transcriptions", "/v1/audio/translations")
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
    ticket = await admit_upload(request, service.served)
    try:
        receive = impatient(request.receive, service.settings.upload_timeout_s, "file")
        form = await read_form(Request(request.scope, receive), LIST_FIELDS)
        try:
            planned = plan(validate(form.fields, kind), catalog)
            service.served.engine.check_prompt(recording_prompt(planned.prompt))
            return TranscriptionResponse(service, planned, form.file, ticket)
        except BaseException:
            form.file.close()
            raise
    except BaseException:
        ticket.release()
        raise


def _body(schema: str) -> dict[str, Any]:
    """The form, of which FastAPI has to be told, with its file."""
    file = {"type": "string", "format": "binary", "description": "The recording."}
    fields = {"$ref": f"#/components/schemas/{schema}"}
    form = {
        "allOf": [fields, {"type": "object", "required": ["file"], "properties": {"file": file}}]
    }
    return {"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": form}}}}
