"""ElevenLabs' HTTP API: ``/v1/text-to-speech/...`` and the lists of voices."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from server.catalog import ModelCatalog
from server.elevenlabs_formats import DEFAULT_FORMAT, FORMATS, OutputFormat
from server.elevenlabs_plan import plan_elevenlabs
from server.elevenlabs_response import ElevenLabsResponse, TimedResponse
from server.elevenlabs_voices import describe_voice, find_voice, search_voices
from server.json_body import RequestModel, read_model, validate
from server.schemas.elevenlabs import ElevenLabsSpeech, ElevenLabsSpeechQuery, VoiceQuery
from server.schemas.errors import ErrorBody
from server.speech_plan import SpeechPlan
from server.speech_stream import SpeechService

_SPEAK = "/v1/text-to-speech/{voice_id}"
_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorBody} for status in (400, 401, 404, 413, 415, 429, 500, 503, 504)
}
_BINARY = {"schema": {"type": "string", "format": "binary"}}
_AUDIO: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The audio.",
        "content": {output.content_type: _BINARY for output in FORMATS.values()},
    },
    **_ERRORS,
}
_JSON: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "audio_base64, alignment and normalized_alignment; one object a line "
        "where it is streamed.",
        "content": {"application/json": {"schema": {"type": "object"}}},
    },
    **_ERRORS,
}


def elevenlabs_routes(service: SpeechService, catalog: ModelCatalog) -> APIRouter:
    """The routes, bound to their service."""
    router = APIRouter()
    _add_speech(router, service, catalog)
    _add_voices(router, service)
    return router


def _add_speech(router: APIRouter, service: SpeechService, catalog: ModelCatalog) -> None:
    async def read(request: Request) -> tuple[SpeechPlan, OutputFormat]:
        query = validate(dict(request.query_params), ElevenLabsSpeechQuery)
        body = await read_model(request, ElevenLabsSpeech)
        output = FORMATS[query.output_format or DEFAULT_FORMAT]
        limit = service.settings.max_input_chars
        voice_id = request.path_params["voice_id"]
        return plan_elevenlabs(voice_id, body, output, service.engine, catalog, limit), output

    async def convert(request: Request) -> Response:
        return ElevenLabsResponse(service, *await read(request))

    async def convert_with_timestamps(request: Request) -> Response:
        return TimedResponse(service, *await read(request), streamed=False)

    async def stream_with_timestamps(request: Request) -> Response:
        return TimedResponse(service, *await read(request), streamed=True)

    for path, endpoint, summary, responses in (
        ("", convert, "Speak a text (ElevenLabs)", _AUDIO),
        ("/stream", convert, "Speak a text, streamed (ElevenLabs)", _AUDIO),
        ("/with-timestamps", convert_with_timestamps, "Speak, with character times", _JSON),
        ("/stream/with-timestamps", stream_with_timestamps, "The same, streamed", _JSON),
    ):
        router.add_api_route(
            _SPEAK + path,
            endpoint,
            methods=["POST"],
            name=f"elevenlabs{path}",
            summary=summary,
            response_class=Response,
            responses=responses,
            openapi_extra=_described(ElevenLabsSpeechQuery, "ElevenLabsSpeech"),
        )


def _add_voices(router: APIRouter, service: SpeechService) -> None:
    engine = service.engine

    @router.get("/v1/voices", summary="List the voices (ElevenLabs)", responses=_ERRORS)
    async def list_voices() -> dict[str, Any]:
        return {"voices": [describe_voice(voice) for voice in engine.voices]}

    @router.get("/v1/voices/{voice_id}", summary="Describe a voice", responses=_ERRORS)
    async def get_voice(voice_id: str) -> dict[str, Any]:
        return describe_voice(find_voice(voice_id, engine))

    @router.get(
        "/v2/voices",
        summary="Search the voices (ElevenLabs)",
        responses=_ERRORS,
        openapi_extra=_described(VoiceQuery),
    )
    async def find_voices(request: Request) -> dict[str, Any]:
        query = validate(dict(request.query_params), VoiceQuery)
        found = search_voices(engine.voices, query, request.query_params.getlist("voice_ids"))
        first = int(query.next_page_token or 0)
        last = first + query.page_size
        return {
            "voices": [describe_voice(voice) for voice in found[first:last]],
            "has_more": last < len(found),
            "total_count": len(found),
            "next_page_token": str(last) if last < len(found) else None,
        }


def _described(query: type[RequestModel], body: str | None = None) -> dict[str, Any]:
    """A query and a body that the route reads itself, for the API's description."""
    schema = query.model_json_schema()["properties"]
    extra: dict[str, Any] = {
        "parameters": [
            {
                "name": name,
                "in": "query",
                "schema": field,
                "description": field.get("description", ""),
            }
            for name, field in schema.items()
        ]
    }
    if body is not None:
        reference = {"schema": {"$ref": f"#/components/schemas/{body}"}}
        content = {"application/json": reference}
        # FastAPI finds those that an endpoint declares, and this one reads the request itself.
        extra["parameters"].insert(
            0, {"name": "voice_id", "in": "path", "required": True, "schema": {"type": "string"}}
        )
        extra["requestBody"] = {"required": True, "content": content}
    return extra
