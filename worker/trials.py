"""Suspects: requests that were running when another replica died, held back until their trial.

    held ──ask, oldest first──> asked ──grant──> running ──passed, or cannot run──> ordinary

A group is held, tried and freed as one, under its parent's id. What comes for a held request waits
with it. Nothing here knows models or sockets.
"""

from __future__ import annotations

from typing import TypeAlias

from engine.messages import (
    StageCredit,
    StageInteraction,
    StagePause,
    StageRequest,
    StageResume,
    StageUpdate,
)

RequestMessage: TypeAlias = (
    StageRequest | StageUpdate | StageInteraction | StagePause | StageResume | StageCredit
)


class Trials:
    """One trial at a time."""

    def __init__(self) -> None:
        self._held: dict[str, list[RequestMessage]] = {}
        self._group_of: dict[str, str] = {}
        self._asked: str | None = None
        self._skip_position = 0
        self.running: str | None = None
        self.is_passed = False

    @property
    def num_held(self) -> int:
        """Requests that only wait here."""
        messages = (message for held in self._held.values() for message in held)
        return sum(isinstance(message, StageRequest) for message in messages)

    def holds_back(self, message: RequestMessage) -> bool:
        """Keep a suspect's message for its trial; whether it was kept."""
        if isinstance(message, StageRequest) and message.suspect:
            self._group_of[message.request_id] = message.group_id or message.request_id
        group_id = self._group_of.get(message.request_id)
        if group_id is None:
            return False
        self._held.setdefault(group_id, []).append(message)
        return True

    def ask(self) -> str | None:
        """The suspect to ask a trial for now, if it is time for one."""
        if self._asked is not None or self.running is not None:
            return None
        self._asked = next(iter(self._held), None)
        return self._asked

    def start(self, group_id: str) -> list[RequestMessage]:
        """The trial is granted; what was held back for it, unless it was dropped meanwhile."""
        self._asked, self.running, self.is_passed = None, group_id, False
        messages = self._held.pop(group_id, [])
        requests = [message for message in messages if isinstance(message, StageRequest)]
        self._skip_position = max((r.skip_position for r in requests), default=0)
        for request in requests:
            self._group_of.pop(request.request_id, None)
        return messages

    def note_output(self, request_id: str, end_position: int) -> None:
        """The request made output up to there; what it had not made before passes the trial."""
        if request_id == self.running and end_position > self._skip_position:
            self.is_passed = True

    def end(self) -> None:
        self.running = None

    def drop(self, request_id: str) -> None:
        """The request is let go; a trial that was asked for it is granted to nobody."""
        group_id = self._group_of.pop(request_id, None)
        if group_id is None:
            return
        left = [m for m in self._held.get(group_id, ()) if m.request_id != request_id]
        if left:
            self._held[group_id] = left
        else:
            self._held.pop(group_id, None)
