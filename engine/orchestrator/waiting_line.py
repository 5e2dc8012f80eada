"""Requests that wait for one of the ``max_running`` places."""

from __future__ import annotations

import heapq
from collections.abc import Callable

from engine.orchestrator.records import RequestRecord


class WaitingLine:
    """Orders by priority, then by arrival. Requests that end while they wait are dropped late."""

    def __init__(self) -> None:
        self._heap: list[tuple[tuple[int, int], str]] = []

    def push(self, record: RequestRecord) -> None:
        heapq.heappush(self._heap, (record.sort_key, record.request_id))

    def pop(
        self, find: Callable[[str], RequestRecord | None], is_held_back: Callable[[str], bool]
    ) -> RequestRecord | None:
        """The next request that may start; those held back keep their place."""
        held_back = []
        found = None
        while self._heap and found is None:
            entry = heapq.heappop(self._heap)
            record = find(entry[1])
            if record is None or record.sort_key != entry[0]:
                continue
            if is_held_back(record.request_id):
                held_back.append(entry)
            else:
                found = record
        for entry in held_back:
            heapq.heappush(self._heap, entry)
        return found
