"""How far each request may go: no step is taken for one whose output has reached its limit."""

from __future__ import annotations

from dataclasses import dataclass

from engine.messages import StageRequest


@dataclass(slots=True)
class _Credit:
    position: int
    max_position: int


class Credits:
    """Positions are those of a stage's output: samples for audio, else units."""

    def __init__(self) -> None:
        self._credits: dict[str, _Credit] = {}

    def __len__(self) -> int:
        return len(self._credits)

    def add(self, request: StageRequest) -> None:
        self._credits[request.request_id] = _Credit(request.skip_position, request.max_position)

    def grant(self, request_id: str, max_position: int) -> None:
        """Move the limit on; a grant for a request that is gone is harmless."""
        credit = self._credits.get(request_id)
        if credit is not None:
            credit.max_position = max(credit.max_position, max_position)

    def note_output(self, request_id: str, position: int) -> None:
        """The request's output has come so far."""
        credit = self._credits.get(request_id)
        if credit is not None:
            credit.position = position

    def allows(self, request_id: str) -> bool:
        """Whether the request may be stepped; an unknown one may not."""
        credit = self._credits.get(request_id)
        return credit is not None and credit.position < credit.max_position

    def drop(self, request_id: str) -> None:
        self._credits.pop(request_id, None)
