"""``/v1/models`` and ``/v1/audio/models``."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from server.catalog import ModelCatalog
from server.schemas.errors import ErrorBody
from server.schemas.listings import AudioModelList, ModelList, ModelObject


def model_routes(speech: ModelCatalog, *others: ModelCatalog) -> APIRouter:
    """The routes, bound to the catalogs."""
    router = APIRouter()
    catalogs = (speech, *others)

    @router.get("/v1/models", summary="List the models", response_model=ModelList)
    async def list_models() -> dict[str, Any]:
        data = [catalog.describe(model) for catalog in catalogs for model in catalog.ids]
        return {"object": "list", "data": data}

    # Ids may hold slashes; openai-python percent-encodes them, others do not.
    @router.get(
        "/v1/models/{model:path}",
        summary="Describe a model",
        response_model=ModelObject,
        responses={404: {"model": ErrorBody}},
    )
    async def get_model(model: str) -> dict[str, Any]:
        found = next((catalog for catalog in others if catalog.knows(model)), speech)
        return found.describe(model)

    @router.get(
        "/v1/audio/models", summary="List the models that speak", response_model=AudioModelList
    )
    async def list_audio_models() -> dict[str, Any]:
        return {"models": [{"id": model} for model in speech.ids]}

    return router
