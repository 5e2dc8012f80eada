"""Requests that wait for one of the ``max_running`` places."""

from __future__ import annotations

import heapq
from collections.abc import Callable

from engine.orchestrator.records import RequestRecord


class WaitingLine:
    """Orders by priority, then by arrival.

    Requests that end while they wait are dropped late, but never make up more than half of the
    line: with all places taken for long, a crowd that comes and goes must not pile up here.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[tuple[int, int], str]] = []
        self._num_gone = 0

    def __len__(self) -> int:
        return len(self._heap)

    def push(self, record: RequestRecord) -> None:
        heapq.heappush(self._heap, (record.sort_key, record.request_id))

    def note_gone(self, find: Callable[[str], RequestRecord | None]) -> None:
        """A request that waits has ended; ``find`` does not know it any more."""
        self._num_gone += 1
        if 2 * self._num_gone > len(self._heap):
            self._heap = [entry for entry in self._heap if _is_here(entry, find)]
            heapq.heapify(self._heap)
            self._num_gone = 0

    def pop(
        self, find: Callable[[str], RequestRecord | None], is_held_back: Callable[[str], bool]
    ) -> RequestRecord | None:
        """The next request that may start; those held back keep their place."""
        held_back = []
        found = None
        while self._heap and found is None:
            entry = heapq.heappop(self._heap)
            record = find(entry[1])
            if record is None or not _is_here(entry, find):
                self._num_gone = max(0, self._num_gone - 1)
                continue
            if is_held_back(record.request_id):
                held_back.append(entry)
            else:
                found = record
        for entry in held_back:
            heapq.heappush(self._heap, entry)
        return found


def _is_here(
    entry: tuple[tuple[int, int], str], find: Callable[[str], RequestRecord | None]
) -> bool:
    """The request of this entry, not a later one of the same id."""
    record = find(entry[1])
    return record is not None and record.sort_key == entry[0]
