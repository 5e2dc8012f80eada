"""Requests that have ended here while replicas still hold them, and the aborts that wait."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from engine.messages import AbortedMessage


class Releases:
    """Which replica has yet to let go of which request.

    ``answer`` is called once per abort, when none of its requests is held anywhere any more.
    """

    def __init__(self, answer: Callable[[AbortedMessage], None]) -> None:
        self._answer = answer
        self._replicas: dict[str, set[str]] = {}
        self._aborts: dict[int, set[str]] = {}

    def __contains__(self, request_id: str) -> bool:
        return request_id in self._replicas

    def __len__(self) -> int:
        return len(self._replicas)

    def is_held(self, request_id: str, replica_id: str) -> bool:
        return replica_id in self._replicas.get(request_id, ())

    def expect(self, request_id: str, replica_id: str) -> None:
        """The replica was told to let go of the request."""
        self._replicas.setdefault(request_id, set()).add(replica_id)

    def done(self, request_id: str, replica_id: str) -> None:
        """The replica has let go of the request, or is gone."""
        replicas = self._replicas.get(request_id)
        if replicas is None:
            return
        replicas.discard(replica_id)
        if not replicas:
            del self._replicas[request_id]
            self._answer_aborts()

    def replica_gone(self, replica_id: str) -> None:
        for request_id in [r for r, held in self._replicas.items() if replica_id in held]:
            self.done(request_id, replica_id)

    def add_abort(self, abort_id: int, request_ids: Iterable[str]) -> None:
        self._aborts[abort_id] = {r for r in request_ids if r in self._replicas}
        self._answer_aborts()

    def clear(self) -> None:
        """Nothing is held any more: all replicas were ended."""
        self._replicas.clear()
        self._answer_aborts()

    def check_integrity(self) -> None:
        assert not self._replicas, f"still releasing: {sorted(self._replicas)}"
        assert not self._aborts, f"aborts unanswered: {sorted(self._aborts)}"

    def _answer_aborts(self) -> None:
        for abort_id, pending in list(self._aborts.items()):
            pending &= self._replicas.keys()
            if not pending:
                del self._aborts[abort_id]
                self._answer(AbortedMessage(abort_id))
