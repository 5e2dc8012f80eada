"""``GET /v1/audio/voices``."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from server.catalog import describe_voice
from server.engine_port import EnginePort
from server.schemas.listings import VoiceList


def voice_routes(engine: EnginePort) -> APIRouter:
    """The route, bound to the engine's voices."""
    router = APIRouter()

    @router.get("/v1/audio/voices", summary="List the voices", response_model=VoiceList)
    async def list_voices() -> dict[str, Any]:
        return {"voices": [describe_voice(voice) for voice in engine.voices]}

    return router
