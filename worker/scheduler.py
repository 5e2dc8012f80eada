"""Who goes next in a stage: whoever is about to run dry, then first chunks, then the others.

The order, best first:

1. requests that waited longer than ``max_wait_s`` (the bound on unfairness), longest wait first;
2. requests whose player, started at the first chunk, runs dry within ``urgent_s``: a gap in what
   is heard is worse than a start that comes a step later; the one that runs dry soonest first;
3. requests that have sent nothing yet, by priority, then in order of arrival;
4. the others by the moment at which their player runs dry.

Paused requests, requests without work and requests whose step is running are not considered. The
requests of a group are scheduled in one batch or not at all: a group whose members have not all
arrived, or of which one is not considered, waits. Members that have finished are not waited for.

A trial is for a request that was running when another replica died: from ``start_trial`` to
``end_trial`` no batch is given but that request's, or its group's, and with nothing else running.

Nothing here knows tensors or models.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

# Ten chunks of the smallest size: a first chunk may be overtaken for long by a crowd of others,
# but not for longer than a person notices.
DEFAULT_MAX_WAIT_S = 0.8
# What passes until a chunk is with its listener: the rest of the step that runs, the chunk's own,
# and the way there. Measured on two busy cores; half of a first chunk, so that first chunks are
# not urgent at once.
DEFAULT_URGENT_S = 0.1

_Rank: TypeAlias = tuple[int, float, int]


class GroupTooLargeError(ValueError):
    """A group that no batch of this stage can hold."""


@dataclass(slots=True)
class _Entry:
    request_id: str
    priority: int
    order: int
    runnable_since: float
    group_id: str | None = None
    is_runnable: bool = False
    is_paused: bool = False
    is_running: bool = False
    first_output_at: float | None = None
    num_samples: int = 0
    last_run_at: float = 0.0

    @property
    def can_run(self) -> bool:
        return self.is_runnable and not self.is_paused and not self.is_running


@dataclass(slots=True)
class _Group:
    size: int
    members: dict[str, _Entry] = field(default_factory=dict)
    num_finished: int = 0

    @property
    def can_run(self) -> bool:
        is_whole = len(self.members) + self.num_finished == self.size
        return is_whole and all(entry.can_run for entry in self.members.values())


class AudioScheduler:
    """Torch-free and clock-free: every time is given by the caller, in seconds."""

    def __init__(
        self,
        *,
        max_batch_size: int,
        steps_in_flight: int,
        sample_rate: int,
        max_wait_s: float = DEFAULT_MAX_WAIT_S,
        urgent_s: float = DEFAULT_URGENT_S,
    ) -> None:
        self._max_batch_size = max_batch_size
        self._steps_in_flight = steps_in_flight
        self._sample_rate = sample_rate
        self._max_wait_s = max_wait_s
        self._urgent_s = urgent_s
        self._entries: dict[str, _Entry] = {}
        self._groups: dict[str, _Group] = {}
        self._num_added = 0
        self._num_steps_running = 0
        self._trial_id: str | None = None

    @property
    def num_requests(self) -> int:
        return len(self._entries)

    def add(
        self,
        request_id: str,
        now: float,
        *,
        priority: int = 0,
        paused: bool = False,
        group_id: str | None = None,
        group_size: int = 1,
    ) -> None:
        """Take on a request. Raises ``GroupTooLargeError``; the request is then taken on alone."""
        self._num_added += 1
        entry = _Entry(request_id, priority, self._num_added, now, is_paused=paused)
        self._entries[request_id] = entry
        if group_id is None:
            return
        if group_size > self._max_batch_size:
            raise GroupTooLargeError(
                f"a group of {group_size} does not fit max_batch_size {self._max_batch_size}"
            )
        entry.group_id = group_id
        group = self._groups.setdefault(group_id, _Group(group_size))
        group.members[request_id] = entry

    def remove(self, request_id: str) -> None:
        """Forget a request; what is left of its group is not scheduled any more."""
        self._pop(request_id)

    def finish(self, request_id: str) -> None:
        """Forget a request that has finished; its group goes on without it."""
        entry = self._pop(request_id)
        if entry is not None and entry.group_id in self._groups:
            self._groups[entry.group_id].num_finished += 1

    def knows(self, request_id: str) -> bool:
        return request_id in self._entries

    def is_running(self, request_id: str) -> bool:
        entry = self._entries.get(request_id)
        return entry is not None and entry.is_running

    def set_runnable(self, request_id: str, runnable: bool, now: float) -> None:
        entry = self._entries.get(request_id)
        if entry is not None and entry.is_runnable != runnable:
            entry.is_runnable, entry.runnable_since = runnable, now

    def set_paused(self, request_id: str, paused: bool, now: float) -> None:
        entry = self._entries.get(request_id)
        if entry is not None and entry.is_paused != paused:
            entry.is_paused, entry.runnable_since = paused, now

    def schedule(self, now: float) -> list[str]:
        """The next batch, its requests marked as running; empty if there is nothing to do.

        The work is spread over the free steps, so that two requests take two cores rather than
        one batch.
        """
        num_free = self._steps_in_flight - self._num_steps_running
        if self._trial_id is not None:
            num_free = 1 if self._num_steps_running == 0 else 0
        units = self._units() if num_free > 0 else []
        if not units:
            return []
        num_rows = sum(map(len, units))
        size = min(self._max_batch_size, -(-num_rows // num_free))
        batch = self._fill(sorted(units, key=lambda unit: self._rank(unit, now)), size)
        for entry in batch:
            entry.is_running = True
        self._num_steps_running += 1
        return [entry.request_id for entry in batch]

    def step_done(self, batch: list[str], now: float) -> None:
        """The step of this batch has ended, whatever came out of it."""
        self._num_steps_running -= 1
        for request_id in batch:
            entry = self._entries.get(request_id)
            if entry is not None:
                entry.is_running = False
                entry.runnable_since = entry.last_run_at = now

    def output_sent(self, request_id: str, num_samples: int, now: float) -> None:
        """Output of a request left the stage; ``num_samples`` is 0 where it is not audio."""
        entry = self._entries.get(request_id)
        if entry is None:
            return
        if entry.first_output_at is None:
            entry.first_output_at = now
        entry.num_samples += num_samples

    @property
    def is_idle(self) -> bool:
        """No step is running."""
        return self._num_steps_running == 0

    def start_trial(self, request_id: str) -> None:
        """Give no batch but that of this request, or of its group, until ``end_trial``."""
        self._trial_id = request_id

    def end_trial(self) -> None:
        self._trial_id = None

    def is_one_unit(self, batch: list[str]) -> bool:
        """Whether the batch is one request, or one group."""
        entries = [self._entries[request_id] for request_id in batch]
        return len({entry.group_id or entry.request_id for entry in entries}) == 1

    def can_run(self, request_id: str) -> bool:
        """Whether a batch could hold the request now, or holds it."""
        entry = self._entries.get(request_id)
        if entry is None:
            return False
        group = self._groups.get(entry.group_id or "")
        return entry.is_running or (entry.can_run if group is None else group.can_run)

    def _units(self) -> list[list[_Entry]]:
        """What may be scheduled now."""
        units = self._runnable()
        if self._trial_id is None:
            return units
        return [u for u in units if any(e.request_id == self._trial_id for e in u)]

    def _runnable(self) -> list[list[_Entry]]:
        """Requests without group, and whole groups."""
        single = [[e] for e in self._entries.values() if e.group_id is None and e.can_run]
        whole = [list(group.members.values()) for group in self._groups.values() if group.can_run]
        return single + whole

    def _fill(self, units: list[list[_Entry]], size: int) -> list[_Entry]:
        """The best units that fit; the very best one always does."""
        batch = list(units[0])
        for unit in units[1:]:
            if len(batch) + len(unit) <= size:
                batch += unit
        return batch

    def _rank(self, unit: list[_Entry], now: float) -> _Rank:
        """A group goes where its most urgent member would."""
        return min(self._rank_entry(entry, now) for entry in unit)

    def _rank_entry(self, entry: _Entry, now: float) -> _Rank:
        if now - entry.runnable_since > self._max_wait_s:
            return (0, entry.runnable_since, entry.order)
        if entry.first_output_at is None:
            return (2, entry.priority, entry.order)
        runs_dry_at = self._runs_dry_at(entry)
        is_urgent = entry.num_samples > 0 and runs_dry_at - now < self._urgent_s
        return (1 if is_urgent else 3, runs_dry_at, entry.order)

    def _runs_dry_at(self, entry: _Entry) -> float:
        if entry.num_samples == 0:
            return entry.last_run_at  # not audio: whoever was served longest ago
        assert entry.first_output_at is not None, "samples were sent at some time"
        return entry.first_output_at + entry.num_samples / self._sample_rate

    def _pop(self, request_id: str) -> _Entry | None:
        entry = self._entries.pop(request_id, None)
        if entry is not None and entry.group_id is not None:
            group = self._groups[entry.group_id]
            del group.members[request_id]
            if not group.members:
                del self._groups[entry.group_id]
        return entry
