"""How a realtime session begins, and what it asks of the server."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol


class Abilities(Protocol):
    """What the server has, and can. ``path`` is what errors call the field."""

    def find_voice(self, name: str, path: str) -> str:
        """The id of the voice of that name.

        Raises ``InvalidRequestError`` for one that this server does not have.
        """
        ...

    def check_speed(self, speed: float, path: str) -> None:
        """Raises ``InvalidRequestError`` for a speed at which no answer can be spoken."""
        ...

    def check_transcription(self, options: Mapping[str, Any], path: str) -> None:
        """``options`` are ``audio.input.transcription`` of a session.

        Raises ``InvalidRequestError`` for what the recogniser does not know.
        """
        ...


@dataclass(frozen=True, slots=True)
class SessionSpec:
    """How a session begins. ``expires_at`` is Unix time, ``lifetime_s`` until then.

    ``model_hears``: the model is given the sound of a turn, and waits for nobody's words.
    """

    model: str
    voice: str
    kind: str = "realtime"
    lifetime_s: float = 3600.0
    expires_at: int = 0
    initial: dict[str, Any] | None = None
    model_hears: bool = False


def random_id(prefix: str) -> str:
    return f"{prefix}_{secrets.token_hex(10)}"
