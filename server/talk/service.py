"""What every conversation needs of the server."""

from __future__ import annotations

from dataclasses import dataclass

from engine.errors import NotFoundError
from server.encoding import EncoderPool
from server.engine_life import ServedEngine
from server.engine_port import EnginePort
from server.settings import ServerSettings
from server.talk.answers import CascadeStages


@dataclass(frozen=True, slots=True)
class TalkService:
    """An engine that runs a cascade, and where its parts are.

    ``transcriber`` writes down what a model has heard that hears for itself.
    """

    engine: EnginePort
    stages: CascadeStages
    encoders: EncoderPool
    settings: ServerSettings
    transcriber: ServedEngine | None = None

    @property
    def writes_down(self) -> bool:
        """Whether anything here finds out what a turn says."""
        return self.known_recogniser is not None

    @property
    def known_recogniser(self) -> EnginePort | None:
        """What writes down recordings, started or not."""
        if self.stages.writing is not None:
            return self.engine
        return None if self.transcriber is None else self.transcriber.engine

    async def recogniser(self) -> EnginePort:
        """What writes down recordings, started. Raises ``VoxloomError``."""
        if self.stages.writing is not None:
            return self.engine
        if self.transcriber is None:
            raise no_recogniser()
        return await self.transcriber.ready()


def no_recogniser() -> NotFoundError:
    """What a server answers that cannot write down what was said."""
    return NotFoundError(
        "this server writes down no speech: install 'voxloom[asr]', or start it with --transcribe",
        code="no_recogniser",
    )
