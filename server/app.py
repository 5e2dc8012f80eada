"""The FastAPI application: routes around an engine. Creating it starts nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException

from engine.errors import VoxloomError
from server.auth import ApiKeys
from server.catalog import ModelCatalog
from server.encoding import EncoderPool
from server.engine_life import EngineLife
from server.engine_port import EnginePort
from server.errors import handle_http_exception, handle_validation_error, handle_voxloom_error
from server.metrics import ServerMetrics
from server.middleware import ApiKeyGate, BodyLimit, CanonicalPaths, Cors, RequestScope
from server.routes.docs import docs_routes
from server.routes.elevenlabs import elevenlabs_routes
from server.routes.health import health_routes
from server.routes.metrics import metrics_routes
from server.routes.models import model_routes
from server.routes.page import page_routes
from server.routes.speech import speech_routes
from server.routes.speech_socket import speech_socket_routes
from server.routes.voices import voice_routes
from server.schemas.elevenlabs import ElevenLabsSpeech
from server.schemas.speech import SpeechRequest, SpeechWithWords
from server.settings import ServerSettings
from server.speech_stream import SpeechService

API_VERSION = "1"
# Schemas of bodies that the routes read themselves.
_BODY_SCHEMAS = (SpeechRequest, SpeechWithWords, ElevenLabsSpeech)


def create_app(engine: EnginePort, settings: ServerSettings | None = None) -> FastAPI:
    """The application. Its lifespan starts the engine and ends it (``app.state.life``)."""
    settings = settings or ServerSettings()
    metrics = ServerMetrics()
    encoders = EncoderPool(settings.num_encoder_threads)
    life = EngineLife(engine)
    app = FastAPI(
        title="voxloom",
        description="Text to speech, with OpenAI's API.",
        version=API_VERSION,
        redirect_slashes=False,
        # FastAPI's own pages load their scripts from elsewhere, and this server runs offline.
        docs_url=None,
        redoc_url=None,
        lifespan=_lifespan(life, encoders),
        exception_handlers={
            VoxloomError: handle_voxloom_error,
            HTTPException: handle_http_exception,
            RequestValidationError: handle_validation_error,
        },
    )
    app.state.life = life
    _add_routes(app, SpeechService(engine, encoders, metrics, settings))
    _add_middleware(app, metrics, settings)
    _describe_bodies(app)
    return app


def _lifespan(life: EngineLife, encoders: EncoderPool) -> Any:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        life.start()
        try:
            yield
        finally:
            await life.end()
            encoders.close()

    return lifespan


def _add_routes(app: FastAPI, service: SpeechService) -> None:
    engine = service.engine
    catalog = ModelCatalog(engine.pipeline)
    app.include_router(speech_routes(service, catalog))
    app.include_router(speech_socket_routes(service, catalog))
    app.include_router(elevenlabs_routes(service, catalog))
    app.include_router(voice_routes(engine))
    app.include_router(model_routes(catalog))
    app.include_router(health_routes(engine))
    app.include_router(page_routes())
    app.include_router(docs_routes(lambda: app.openapi()))
    app.include_router(metrics_routes(engine.metrics.registry, service.metrics.registry))


def _add_middleware(app: FastAPI, metrics: ServerMetrics, settings: ServerSettings) -> None:
    """The last one added is the outermost."""
    app.add_middleware(BodyLimit, max_bytes=settings.max_body_bytes)
    app.add_middleware(ApiKeyGate, keys=ApiKeys(settings.api_keys))
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
