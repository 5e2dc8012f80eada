"""CFG groups: a parent and its companions, which stage 0 finishes together or not at all.

A parent's row that ends stage 0 is held until each companion's output is in hand. Where the next
stage wants the companions' outputs too, each unit of the parent is held until the same unit of
every companion has come, and travels with them under the key ``companions``, by role.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.messages import CompanionSpec, OutputRow, Payload


class BrokenGroupError(Exception):
    """A companion ended without the output that its parent has."""


@dataclass(slots=True)
class Companion:
    spec: CompanionSpec
    position: int = 0
    is_finished: bool = False
    payloads: deque[Payload] = field(default_factory=deque)


class Group:
    """The companions of one parent, and the parent's rows that wait for them."""

    def __init__(self, companions: Sequence[CompanionSpec], *, forwards_payloads: bool) -> None:
        self.companions = {spec.request_id: Companion(spec) for spec in companions}
        self.first_finished_at: float | None = None
        self._forwards_payloads = forwards_payloads
        # As long as the parent is ahead of its companions: one row where they step together.
        self._held: deque[OutputRow] = deque()

    @property
    def size(self) -> int:
        return 1 + len(self.companions)

    def restart(self) -> None:
        """All members run again, on another replica; what was passed on stays passed on.

        Outputs in hand stay in hand, but the members will say once more that they have finished.
        """
        for companion in self.companions.values():
            companion.is_finished = False
        self.first_finished_at = None
        for row in self._held:
            row.finished = False
        self._held = deque(row for row in self._held if row.payload is not None)

    def take_parent(self, row: OutputRow, now: float) -> None:
        self._held.append(row)
        self._note_finish(row, now)

    def take_companion(self, companion: Companion, row: OutputRow, now: float) -> None:
        companion.position += row.num_samples
        if row.payload is not None and self._forwards_payloads:
            companion.payloads.append(row.payload)
        companion.is_finished |= row.finished
        self._note_finish(row, now)

    def ready_rows(self) -> list[OutputRow]:
        """The parent's rows for which everything is in hand. Raises ``BrokenGroupError``."""
        rows = []
        while self._held and self._is_ready(self._held[0]):
            row = self._held.popleft()
            if row.payload is not None and self._forwards_payloads:
                row.payload["companions"] = {
                    companion.spec.role: companion.payloads.popleft()
                    for companion in self.companions.values()
                }
            rows.append(row)
        return rows

    def _is_ready(self, row: OutputRow) -> bool:
        companions = self.companions.values()
        if row.payload is not None and self._forwards_payloads:
            for companion in companions:
                if not companion.payloads and companion.is_finished:
                    raise BrokenGroupError(companion.spec.role)
            if not all(companion.payloads for companion in companions):
                return False
        return not row.finished or all(companion.is_finished for companion in companions)

    def _note_finish(self, row: OutputRow, now: float) -> None:
        if row.finished and self.first_finished_at is None:
            self.first_finished_at = now
