"""The probes."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from server.engine_port import EnginePort
from server.schemas.listings import Health, Readiness


def health_routes(engine: EnginePort) -> APIRouter:
    """``/health`` (the process lives) and ``/ready`` (it can serve)."""
    router = APIRouter()

    # An engine that has given up does not come back: whoever watches the process may restart it.
    @router.get(
        "/health", summary="Liveness", response_model=Health, responses={503: {"model": Health}}
    )
    async def health(response: Response) -> dict[str, str]:
        is_alive = engine.readiness()["failure"] is None
        response.status_code = 200 if is_alive else 503
        return {"status": "ok" if is_alive else "failed"}

    @router.get(
        "/ready",
        summary="Readiness",
        response_model=Readiness,
        responses={503: {"model": Readiness}},
    )
    async def ready(response: Response) -> dict[str, Any]:
        state = engine.readiness()
        response.status_code = 200 if state["ready"] else 503
        return {**state, "status": "ready" if state["ready"] else "not_ready"}

    return router
