"""The models and voices of a server, as clients name and see them."""

from __future__ import annotations

import re
import time
from typing import Any

from engine.errors import NotFoundError
from engine.pipeline import PipelineConfig, Voice

# OpenAI's speech models; clients have these names built in. Dated ones are snapshots of the same.
OPENAI_MODELS = ("tts-1", "tts-1-hd", "gpt-4o-mini-tts")
_DATED_MODEL = re.compile(r"gpt-4o-mini-tts-\d{4}-\d{2}-\d{2}\Z")
_MAX_QUOTED_CHARS = 100


class ModelCatalog:
    """The names under which the server's pipeline can be asked for."""

    def __init__(self, pipeline: PipelineConfig) -> None:
        own = pipeline.models or (pipeline.name,)
        self.ids = tuple(dict.fromkeys((*own, *OPENAI_MODELS)))
        self._created = int(time.time())

    def check(self, model: str) -> None:
        """Raise ``NotFoundError`` that lists the known names."""
        if model not in self.ids and not _DATED_MODEL.match(model):
            known = ", ".join(self.ids)
            raise NotFoundError(
                f"the model {model[:_MAX_QUOTED_CHARS]!a} does not exist; known: {known}",
                param="model",
                code="model_not_found",
            )

    def describe(self, model: str) -> dict[str, Any]:
        """OpenAI's model object."""
        self.check(model)
        return {
            "id": model,
            "object": "model",
            "created": self._created,
            "owned_by": "voxloom",
        }


def describe_voice(voice: Voice) -> dict[str, Any]:
    """A voice as ``/v1/audio/voices`` lists it."""
    return {
        "id": voice.id,
        "name": voice.name,
        "language": voice.language,
        "gender": voice.gender,
        "description": voice.description,
        "aliases": list(voice.aliases),
    }
