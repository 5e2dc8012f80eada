"""The FastAPI application: routes around an engine. Creating it starts nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException

from engine.errors import VoxloomError
from server.auth import ApiKeys
from server.catalog import OPENAI_TRANSCRIBERS, ModelCatalog
from server.decoding import DecoderPool
from server.encoding import EncoderPool
from server.engine_life import EngineLife, ServedEngine
from server.engine_metrics import engine_registry
from server.engine_port import EnginePort
from server.ephemeral_keys import EphemeralKeys
from server.errors import handle_http_exception, handle_validation_error, handle_voxloom_error
from server.loop_lag import watch_lag
from server.metrics import ServerMetrics
from server.middleware import ApiKeyGate, BodyLimit, CanonicalPaths, Cors, RequestScope
from server.routes.chat import CHAT_PATH, chat_routes
from server.routes.docs import docs_routes
from server.routes.elevenlabs import elevenlabs_routes
from server.routes.elevenlabs_socket import elevenlabs_socket_routes
from server.routes.health import health_routes
from server.routes.metrics import metrics_routes
from server.routes.models import model_routes
from server.routes.page import page_routes
from server.routes.realtime import realtime_routes
from server.routes.speech import speech_routes
from server.routes.speech_socket import speech_socket_routes
from server.routes.subtitles import subtitle_routes
from server.routes.transcriptions import UPLOAD_PATHS, transcription_routes
from server.routes.voices import voice_routes
from server.schemas.chat import ChatRequest
from server.schemas.elevenlabs import ElevenLabsSpeech
from server.schemas.realtime import ClientSecretRequest
from server.schemas.speech import SpeechRequest, SpeechWithWords
from server.schemas.subtitles import SubtitlesRequest
from server.schemas.transcriptions import TranscriptionForm, TranslationForm
from server.settings import ServerSettings
from server.speech_stream import SpeechService
from server.talk.answers import find_stages
from server.talk.audio_fetch import AudioFetcher
from server.talk.audio_shelf import AudioShelf
from server.talk.chat_stream import ChatService
from server.talk.service import TalkService
from server.transcription_stream import TranscriptionService

API_VERSION = "1"
# Schemas of bodies that the routes read themselves.
_BODY_SCHEMAS = (
    SpeechRequest,
    SpeechWithWords,
    SubtitlesRequest,
    ElevenLabsSpeech,
    TranscriptionForm,
    TranslationForm,
    ChatRequest,
    ClientSecretRequest,
)


def create_app(
    engine: EnginePort,
    settings: ServerSettings | None = None,
    transcriber: ServedEngine | None = None,
    talker: ServedEngine | None = None,
) -> FastAPI:
    """The application. Its lifespan starts the engines and ends them (``app.state.life``).

    ``engine`` speaks, ``transcriber`` writes down speech, ``talker`` holds conversations.
    """
    settings = settings or ServerSettings()
    metrics = ServerMetrics()
    keys = EphemeralKeys()
    encoders = EncoderPool(settings.num_encoder_threads)
    decoders = DecoderPool(settings.num_decoder_threads)
    life = EngineLife(engine, *[served for served in (transcriber, talker) if served is not None])
    app = FastAPI(
        title="voxloom",
        description="Text to speech, speech to text and conversations, with OpenAI's API.",
        version=API_VERSION,
        redirect_slashes=False,
        # FastAPI's own pages load their scripts from elsewhere, and this server runs offline.
        docs_url=None,
        redoc_url=None,
        lifespan=_lifespan(life, metrics, encoders, decoders),
        exception_handlers={
            VoxloomError: handle_voxloom_error,
            HTTPException: handle_http_exception,
            RequestValidationError: handle_validation_error,
        },
    )
    app.state.life = life
    hearing = None
    if transcriber is not None:
        hearing = TranscriptionService(transcriber, decoders, metrics, settings)
    speech = SpeechService(engine, encoders, metrics, settings)
    _add_routes(app, life, speech, hearing)
    _add_talk(app, talker, transcriber, speech, decoders, keys)
    _add_middleware(app, metrics, settings, keys)
    _describe_bodies(app)
    return app


def _lifespan(
    life: EngineLife, metrics: ServerMetrics, encoders: EncoderPool, decoders: DecoderPool
) -> Any:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        life.start()
        watch = asyncio.create_task(watch_lag(metrics.loop_lag.observe))
        try:
            yield
        finally:
            watch.cancel()
            await life.end()
            encoders.close()
            decoders.close()

    return lifespan


def _add_routes(
    app: FastAPI,
    life: EngineLife,
    service: SpeechService,
    hearing: TranscriptionService | None,
) -> None:
    engine = service.engine
    catalog = ModelCatalog(engine.pipeline)
    heard = None
    if hearing is not None:
        heard = ModelCatalog(hearing.served.engine.pipeline, OPENAI_TRANSCRIBERS)
    app.include_router(speech_routes(service, catalog))
    app.include_router(speech_socket_routes(service, catalog))
    app.include_router(subtitle_routes(service, catalog))
    app.include_router(elevenlabs_routes(service, catalog))
    app.include_router(elevenlabs_socket_routes(service, catalog))
    app.include_router(voice_routes(engine))
    app.include_router(transcription_routes(hearing, heard))
    app.include_router(model_routes(catalog, *([] if heard is None else [heard])))
    app.include_router(health_routes(life))
    app.include_router(docs_routes(lambda: app.openapi()))
    engines = engine_registry(served.engine for served in life)
    app.include_router(metrics_routes(engines, service.metrics.registry))


def _add_talk(
    app: FastAPI,
    talker: ServedEngine | None,
    transcriber: ServedEngine | None,
    speech: SpeechService,
    decoders: DecoderPool,
    keys: EphemeralKeys,
) -> None:
    talk = chat = None
    stages = None if talker is None else find_stages(talker.engine.pipeline)
    if talker is not None and stages is not None:
        talk = TalkService(talker.engine, stages, speech.encoders, speech.settings, transcriber)
        fetcher = AudioFetcher(speech.settings.audio_url_hosts)
        chat = ChatService(talk, decoders, speech.metrics, AudioShelf(), fetcher)
    app.include_router(chat_routes(talker, chat))
    app.include_router(realtime_routes(talker, talk, keys))
    is_live = talk is not None and talk.stages.is_live
    app.include_router(page_routes(talker.engine if talker is not None and is_live else None))


def _add_middleware(
    app: FastAPI, metrics: ServerMetrics, settings: ServerSettings, keys: EphemeralKeys
) -> None:
    """The last one added is the outermost."""
    app.add_middleware(
        BodyLimit,
        max_bytes=settings.max_body_bytes,
        bounds=dict.fromkeys(UPLOAD_PATHS, (settings.max_upload_bytes, "file"))
        | {CHAT_PATH: (settings.max_chat_bytes, "messages")},
    )
    app.add_middleware(ApiKeyGate, keys=ApiKeys(settings.api_keys, keys))
    app.add_middleware(CanonicalPaths)
    app.add_middleware(RequestScope, metrics=metrics, log_requests=settings.access_log)
    app.add_middleware(Cors, origins=settings.cors_origins)


def _describe_bodies(app: FastAPI) -> None:
    """Correct the API's description: bodies that the routes read themselves, and no 422."""
    describe = app.openapi

    def openapi() -> dict[str, Any]:
        document = describe()
        _, schemas = models_json_schema(
            [(model, "validation") for model in _BODY_SCHEMAS],
            ref_template="#/components/schemas/{model}",
        )
        known = document.setdefault("components", {}).setdefault("schemas", {})
        known.update(schemas["$defs"])
        _remove_422(document)
        return document

    app.openapi = openapi  # type: ignore[method-assign]


def _remove_422(document: dict[str, Any]) -> None:
    """FastAPI describes its own validation answer; ours is the envelope, with status 400."""
    for operations in document["paths"].values():
        for operation in operations.values():
            operation["responses"].pop("422", None)
    for name in ("HTTPValidationError", "ValidationError"):
        document["components"]["schemas"].pop(name, None)
