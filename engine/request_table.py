"""The caller's side of the requests: from their submission until their last message is read."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from engine.admission import AdmissionTicket
from engine.errors import DuplicateRequestError, UnavailableError, UnknownRequestError
from engine.input_processor import remove_artifacts
from engine.messages import Prompt
from engine.output_queue import OutputQueue


@dataclass(slots=True)
class OpenRequest:
    """``is_live``: its terminal message has not come; ``is_open``: it takes more text."""

    queue: OutputQueue
    ticket: AdmissionTicket
    prompt: Prompt
    is_open: bool
    warnings: tuple[str, ...] = ()
    artifact_dirs: tuple[Path, ...] = ()
    companion_ids: tuple[str, ...] = ()
    num_chars: int = 0
    prompt_text: str | None = None
    is_live: bool = True


class RequestTable:
    """Thread-safe. A request's ticket goes back, and its artifacts go, when it ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: dict[str, OpenRequest] = {}
        self._reserved: set[str] = set()
        self._num_live = 0
        self._idle_waiters: list[Callable[[], None]] = []
        self._closed_because: str | None = None

    @property
    def num_live(self) -> int:
        return self._num_live

    def add(self, request_id: str, request: OpenRequest) -> None:
        """Register a request and its companions' ids. Raises ``DuplicateRequestError``."""
        ids = (request_id, *request.companion_ids)
        with self._lock:
            if self._closed_because is not None:
                raise UnavailableError(self._closed_because)
            if any(i in self._requests or i in self._reserved for i in ids):
                raise DuplicateRequestError(
                    f"a request {request_id!r} is already open", param="request_id"
                )
            self._requests[request_id] = request
            self._reserved.update(request.companion_ids)
            self._num_live += 1

    def find(self, request_id: str) -> OpenRequest | None:
        with self._lock:
            return self._requests.get(request_id)

    def find_live(self, request_id: str) -> OpenRequest:
        """A request that has not ended. Raises ``UnknownRequestError``."""
        request = self.find(request_id)
        if request is None or not request.is_live:
            raise UnknownRequestError(
                f"no request {request_id!r} is running: it is unknown or has ended",
                param="request_id",
            )
        return request

    def live_ids(self) -> list[str]:
        with self._lock:
            return [rid for rid, request in self._requests.items() if request.is_live]

    def end(self, request: OpenRequest) -> None:
        """Its terminal message has come, or its caller has gone. Harmless the second time."""
        waiters: list[Callable[[], None]] = []
        with self._lock:
            if not request.is_live:
                return
            request.is_live = False
            self._num_live -= 1
            self._reserved.difference_update(request.companion_ids)
            if self._num_live == 0:
                waiters, self._idle_waiters = self._idle_waiters, []
        request.ticket.release()
        remove_artifacts(request.artifact_dirs)
        for wake in waiters:
            wake()

    def forget(self, request_id: str) -> None:
        """Its terminal message has been read. A request that is live stays."""
        with self._lock:
            request = self._requests.get(request_id)
            if request is not None and not request.is_live:
                del self._requests[request_id]

    def drop(self, request_id: str, request: OpenRequest) -> bool:
        """End a request whose caller has gone; whether there was something to end.

        Its id stays taken until ``forget``: the orchestrator has yet to let go of it.
        """
        if self.find(request_id) is not request or not request.is_live:
            return False
        self.end(request)
        return True

    def close(self, reason: str) -> None:
        """Take no request any more."""
        with self._lock:
            self._closed_because = self._closed_because or reason

    def when_idle(self, wake: Callable[[], None]) -> None:
        """Call ``wake`` once no request is live; at once if that is so."""
        with self._lock:
            if self._num_live:
                self._idle_waiters.append(wake)
                return
        wake()
