"""``/v1/audio/speech/subtitles``: when the words of a text are spoken, as WebVTT or SubRip.

It takes GET as well, so that an address alone is a file of subtitles.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from engine.errors import InvalidRequestError
from server.body_sender import BodySender
from server.catalog import ModelCatalog
from server.json_body import read_model, validate
from server.pcm_source import PcmSource
from server.schemas.errors import ErrorBody
from server.schemas.subtitles import SubtitlesRequest
from server.speech_plan import SpeechPlan, plan_speech
from server.speech_stream import SpeechResponse, SpeechService, warning_headers
from server.subtitles import CONTENT_TYPES, SubtitleFormat, make_cues, write_subtitles

_PATH = "/v1/audio/speech/subtitles"
_ERRORS = (400, 401, 404, 413, 415, 429, 500, 503, 504)
_TEXT = {"schema": {"type": "string"}}
_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The subtitles.",
        "content": {kind.partition(";")[0]: _TEXT for kind in CONTENT_TYPES.values()},
    },
    **{status: {"model": ErrorBody} for status in _ERRORS},
}
_REQUEST_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": {"$ref": "#/components/schemas/SubtitlesRequest"}}
        },
    }
}


def subtitle_routes(service: SpeechService, catalog: ModelCatalog) -> APIRouter:
    """The routes, bound to their service."""
    router = APIRouter()

    def answer(body: SubtitlesRequest) -> Response:
        settings = service.settings
        plan = plan_speech(body.as_speech(), service.engine, catalog, settings.max_input_chars)
        return SubtitlesResponse(service, plan, body.response_format or SubtitleFormat.VTT)

    @router.get(
        _PATH,
        summary="Subtitles for a spoken text",
        response_class=Response,
        responses=_RESPONSES,
        openapi_extra={"parameters": _describe_query()},
    )
    async def get_subtitles(request: Request) -> Response:
        return answer(validate(read_query(request.query_params), SubtitlesRequest))

    @router.post(
        _PATH,
        summary="Subtitles for a spoken text",
        response_class=Response,
        responses=_RESPONSES,
        openapi_extra=_REQUEST_BODY,
    )
    async def create_subtitles(request: Request) -> Response:
        return answer(await read_model(request, SubtitlesRequest))

    return router


class SubtitlesResponse(SpeechResponse):
    """Has the text spoken, and sends when."""

    def __init__(self, service: SpeechService, plan: SpeechPlan, fmt: SubtitleFormat) -> None:
        super().__init__(service, plan)
        self._fmt = fmt

    async def _deliver(
        self, pcm: AsyncIterator[memoryview], source: PcmSource, sender: BodySender
    ) -> None:
        max_s = self._service.settings.max_complete_s
        async for _ in pcm:
            if source.meter.audio_s > max_s:
                raise InvalidRequestError(
                    f"input makes more than {max_s:g} s of audio, the most that subtitles are "
                    "made for",
                    param="input",
                )
        # Half an hour of words would hold up the event loop.
        body = await asyncio.to_thread(self._write, source)
        headers = {"content-type": CONTENT_TYPES[self._fmt], "content-length": str(len(body))}
        await sender.start(headers | warning_headers(source.warnings))
        await sender.write(body)
        await sender.finish()

    def _write(self, source: PcmSource) -> bytes:
        cues = make_cues(
            self._plan.prompt["text"],
            source.take_words(),
            source.sentences,
            self._plan.source_rate,
            source.meter.num_samples,
        )
        return write_subtitles(cues, self._fmt).encode("utf-8")


def read_query(query: Mapping[str, str]) -> dict[str, Any]:
    """The parameters of an address as JSON would have them: numbers are numbers."""
    data: dict[str, Any] = dict(query)
    for name in {"speed", "seed"} & data.keys():
        # What is no number stays a text, and is refused as such.
        with contextlib.suppress(ValueError, RecursionError):
            data[name] = json.loads(data[name])
    return data


def _describe_query() -> list[dict[str, Any]]:
    schema = SubtitlesRequest.model_json_schema(ref_template="#/components/schemas/{model}")
    required = schema["required"]
    return [
        {
            "name": name,
            "in": "query",
            "required": name in required,
            "description": field.get("description", ""),
            "schema": {"type": "number" if name in ("speed", "seed") else "string"},
        }
        for name, field in schema["properties"].items()
    ]
