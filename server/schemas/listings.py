"""The answers that list models and voices, and those of the probes."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel


class ModelObject(BaseModel):
    """A model; ``created`` is in Unix seconds."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class ModelList(BaseModel):
    """OpenAI's list of models."""

    object: Literal["list"]
    data: list[ModelObject]


class ModelName(BaseModel):
    """A model that speaks."""

    id: str


class AudioModelList(BaseModel):
    """The models that speak, in the shape that Open WebUI reads."""

    models: list[ModelName]


class VoiceObject(BaseModel):
    """A voice; ``language`` is a BCP 47 tag. Each of ``aliases`` works like the id."""

    id: str
    name: str
    language: str
    gender: Literal["female", "male", "neutral"]
    description: str
    aliases: list[str]


class VoiceList(BaseModel):
    """The voices; the first one is the default."""

    voices: list[VoiceObject]


class Health(BaseModel):
    """The process answers; ``failed`` if its engine has given up."""

    status: Literal["ok", "failed"]


class Readiness(BaseModel):
    """Whether requests can be served now; per stage how many replicas are ready and wanted.

    ``failure`` says why the engine has given up, if it has. ``stages`` are those of the pipeline
    that speaks; ``pipelines`` tells the same of the others.
    """

    status: Literal["ready", "not_ready"]
    failure: str | None = None
    stages: dict[str, Any]
    pipelines: dict[str, Any] = {}
