"""The models and voices of a server, as clients name and see them."""

from __future__ import annotations

import re
import time
from typing import Any

from engine.errors import NotFoundError
from engine.pipeline import PipelineConfig, Voice

# OpenAI's speech models; clients have these names built in. Dated ones are snapshots of the same.
OPENAI_MODELS = ("tts-1", "tts-1-hd", "gpt-4o-mini-tts")
# Those that transcribe.
OPENAI_TRANSCRIBERS = (
    "whisper-1",
    "gpt-4o-transcribe",
    "gpt-4o-mini-transcribe",
    "gpt-transcribe",
)
_DATED = re.compile(r"-\d{4}-\d{2}-\d{2}\Z")
_MAX_QUOTED_CHARS = 100


class ModelCatalog:
    """The names under which a pipeline can be asked for: its own, and OpenAI's ``aliases``."""

    def __init__(self, pipeline: PipelineConfig, aliases: tuple[str, ...] = OPENAI_MODELS) -> None:
        own = pipeline.models or (pipeline.name,)
        self.ids = tuple(dict.fromkeys((*own, *aliases)))
        self._dated = frozenset(name for name in aliases if name.startswith("gpt-"))
        self._created = int(time.time())

    def knows(self, model: str) -> bool:
        """Whether that is one of the names, or a dated one of OpenAI's."""
        return model in self.ids or (
            _DATED.search(model) is not None and _DATED.sub("", model) in self._dated
        )

    def check(self, model: str) -> None:
        """Raise ``NotFoundError`` that lists the known names."""
        if not self.knows(model):
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
