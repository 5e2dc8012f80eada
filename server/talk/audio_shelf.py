"""Spoken answers that a client may refer to by id in a later request. Their words are kept."""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from engine.errors import InvalidRequestError
from server.json_body import quoted

# OpenAI keeps audio for about an hour.
LIFETIME_S = 3600
# Some hundred bytes each; the oldest goes first.
_MAX_ANSWERS = 20_000
_MAX_CHARS = 50_000_000


@dataclass(frozen=True, slots=True)
class _Answer:
    transcript: str
    expires_at: int


class AudioShelf:
    """In memory: after a restart it is empty."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._answers: OrderedDict[str, _Answer] = OrderedDict()
        self._num_chars = 0

    def new_id(self) -> str:
        return f"audio_{secrets.token_hex(12)}"

    def put(self, audio_id: str, transcript: str) -> int:
        """Keep an answer; when it expires, in Unix time."""
        answer = _Answer(transcript, int(self._clock()) + LIFETIME_S)
        self._answers[audio_id] = answer
        self._num_chars += len(transcript)
        while len(self._answers) > _MAX_ANSWERS or self._num_chars > _MAX_CHARS:
            _, oldest = self._answers.popitem(last=False)
            self._num_chars -= len(oldest.transcript)
        return answer.expires_at

    def find(self, audio_id: str, param: str) -> str:
        """The words of an answer.

        Raises ``InvalidRequestError`` about ``param`` if it is unknown or expired.
        """
        answer = self._answers.get(audio_id)
        if answer is None or answer.expires_at <= self._clock():
            raise InvalidRequestError(
                f"{param}: there is no audio {quoted(audio_id)}, or it has expired; answers are "
                f"kept for {LIFETIME_S // 60} minutes",
                param=param,
            )
        return answer.transcript
