"""``GET /metrics``, in Prometheus's text format."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.responses import Response


def metrics_routes(*registries: CollectorRegistry) -> APIRouter:
    """The route; the registries' metrics have different names."""
    router = APIRouter()

    def expose() -> bytes:
        return b"".join(generate_latest(registry) for registry in registries)

    @router.get("/metrics", summary="Prometheus metrics", response_class=Response)
    async def metrics() -> Response:
        return Response(await asyncio.to_thread(expose), media_type=CONTENT_TYPE_LATEST)

    return router
