"""The probes."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from server.engine_life import EngineLife
from server.schemas.listings import Health, Readiness


def health_routes(life: EngineLife) -> APIRouter:
    """``/health`` (the process lives) and ``/ready`` (it can serve).

    A lazy engine that cannot start fails its own requests; the server is none the worse for it.
    """
    router = APIRouter()
    eager = [served for served in life if not served.is_lazy]

    # An engine that has given up does not come back: whoever watches the process may restart it.
    @router.get(
        "/health", summary="Liveness", response_model=Health, responses={503: {"model": Health}}
    )
    async def health(response: Response) -> dict[str, str]:
        is_alive = all(served.engine.readiness()["failure"] is None for served in eager)
        response.status_code = 200 if is_alive else 503
        return {"status": "ok" if is_alive else "failed"}

    @router.get(
        "/ready",
        summary="Readiness",
        response_model=Readiness,
        response_model_exclude_unset=True,
        responses={503: {"model": Readiness}},
    )
    async def ready(response: Response) -> dict[str, Any]:
        speech, *others = life
        is_ready = all(served.engine.readiness()["ready"] for served in eager)
        response.status_code = 200 if is_ready else 503
        state = speech.engine.readiness()
        state["status"] = "ready" if is_ready else "not_ready"
        if others:
            state["pipelines"] = {served.name: served.readiness() for served in others}
        return state

    return router
