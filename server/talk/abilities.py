"""What the engines behind conversations have, and can: asked before a client is promised anything.

An engine's own refusal of a prompt is the answer, under the name that the field has for the client.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.errors import InvalidRequestError
from server.engine_port import EnginePort
from server.sessions.realtime.effects import Hints
from server.talk.session_orders import hints_of

# A prompt without anything that could be wrong.
_QUESTION = {"messages": [{"role": "user", "content": ""}]}
_LIVE_AUDIO = {"mode": "live"}


class TalkAbilities:
    """Of the ``engine`` that answers, and of the one that writes down speech, if there is any."""

    def __init__(self, engine: EnginePort, recogniser: EnginePort | None = None) -> None:
        self._engine = engine
        self._recogniser = recogniser

    def find_voice(self, name: str, path: str) -> str:
        """The id of the voice of that name. Raises ``InvalidRequestError``."""
        try:
            return self._engine.find_voice(name).id
        except InvalidRequestError as error:
            raise InvalidRequestError(error.message, param=path) from None

    def check_speed(self, speed: float, path: str) -> None:
        """Raises ``InvalidRequestError`` for a speed at which the engine does not speak."""
        try:
            self._engine.check_prompt(_QUESTION | {"speed": speed})
        except InvalidRequestError as error:
            raise _refusal(error, path) from None

    def check_transcription(self, options: Mapping[str, Any], path: str) -> None:
        """Raises ``InvalidRequestError`` for hints that the recogniser cannot use."""
        if self._recogniser is None:
            return
        hints = Hints(**{key: options.get(key) for key in Hints.__dataclass_fields__})
        try:
            self._recogniser.check_prompt(_LIVE_AUDIO | hints_of(hints))
        except InvalidRequestError as error:
            raise _refusal(error, f"{path}.{error.param}") from None


def _refusal(error: InvalidRequestError, path: str) -> InvalidRequestError:
    """An engine's refusal of a prompt's key, about the field that the client knows."""
    message = error.message.removeprefix(error.param or "")
    return InvalidRequestError(f"'{path}'{message}", param=path)
