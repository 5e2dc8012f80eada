"""What every conversation needs of the server."""

from __future__ import annotations

from dataclasses import dataclass

from server.encoding import EncoderPool
from server.engine_port import EnginePort
from server.settings import ServerSettings
from server.talk.answers import CascadeStages


@dataclass(frozen=True, slots=True)
class TalkService:
    """An engine that runs a cascade, and where its parts are."""

    engine: EnginePort
    stages: CascadeStages
    encoders: EncoderPool
    settings: ServerSettings
