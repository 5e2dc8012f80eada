"""Admission: no request enters the engine without a ticket.

There are ``max_running + max_waiting`` tickets. A caller takes one before it submits, and the
engine gives it back when the request has ended; a caller that never submits gives it back itself.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from engine.errors import OverloadedError, UnavailableError

# The duration estimate follows the last ~10 requests: quick enough to follow a change of load,
# slow enough not to jump with one long text.
_DURATION_WEIGHT = 0.1
# A wait shorter than this is not worth a client's while to measure; RFC 9110 wants whole seconds.
_MIN_RETRY_AFTER_S = 1.0


class AdmissionTicket:
    """The right to run one request. Giving it back twice is harmless."""

    __slots__ = ("_controller", "_released", "taken_at")

    def __init__(self, controller: AdmissionController, taken_at: float) -> None:
        self._controller = controller
        self._released = False
        self.taken_at = taken_at

    def release(self) -> None:
        self._controller._give_back(self)


class AdmissionController:
    """Hands out tickets, from any thread."""

    def __init__(
        self, max_running: int, max_waiting: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._max_running = max_running
        self._max_tickets = max_running + max_waiting
        self._clock = clock
        self._lock = threading.Lock()
        self._num_taken = 0
        self._mean_duration_s = 1.0
        self._closed = False

    @property
    def num_taken(self) -> int:
        return self._num_taken

    def take(self) -> AdmissionTicket:
        """A ticket. Raises ``OverloadedError`` or, after ``close``, ``UnavailableError``."""
        with self._lock:
            if self._closed:
                raise UnavailableError("the server is shutting down and takes no new requests")
            if self._num_taken >= self._max_tickets:
                raise self._overloaded()
            self._num_taken += 1
        return AdmissionTicket(self, self._clock())

    def close(self) -> None:
        """No ticket is given from now on; those out stay valid."""
        with self._lock:
            self._closed = True

    def _overloaded(self) -> OverloadedError:
        wait_s = self._num_taken / self._max_running * self._mean_duration_s
        return OverloadedError(
            f"{self._num_taken} requests are running or waiting, the most this server takes; "
            f"estimated wait {wait_s:.1f} s",
            retry_after_s=max(_MIN_RETRY_AFTER_S, wait_s),
        )

    def _give_back(self, ticket: AdmissionTicket) -> None:
        with self._lock:
            if ticket._released:
                return
            ticket._released = True
            self._num_taken -= 1
            duration_s = self._clock() - ticket.taken_at
            self._mean_duration_s += _DURATION_WEIGHT * (duration_s - self._mean_duration_s)
