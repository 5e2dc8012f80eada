"""Replicas that run in workers started elsewhere, by hand or by a cluster's own scheduler.

A worker offers itself to a stage and stands by until the stage wants a replica more. Nothing here
can start a worker: a replica that is wanted waits until one joins.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable

import msgspec

from engine.messages import PROTOCOL_VERSION
from engine.pipeline import PipelineConfig
from engine.placement.spec import (
    JoinAccepted,
    JoinAnswer,
    JoinQueued,
    JoinRefused,
    JoinRequest,
    ReplicaSpec,
)

logger = logging.getLogger("voxloom.engine.placement")


class RemotePlacement:
    """Matches wanted replicas with workers that have joined.

    ``answer`` sends to a joining worker and is false if it has gone; ``stop_worker`` tells a
    replica's worker to end; ``joined`` hears of each replica that has found its worker.
    """

    def __init__(
        self,
        pipeline: PipelineConfig,
        answer: Callable[[bytes, JoinAnswer], bool],
        stop_worker: Callable[[str], None],
        joined: Callable[[str], None],
    ) -> None:
        self._answer = answer
        self._stop_worker = stop_worker
        self._joined = joined
        names = [stage.name for stage in pipeline.stages if stage.placement == "remote"]
        self._wanted: dict[str, deque[ReplicaSpec]] = {name: deque() for name in names}
        # Bounded by the connections: whoever has gone is dropped when the next one joins.
        self._standing_by: dict[str, deque[bytes]] = {name: deque() for name in names}
        self._running: set[str] = set()

    def start(self, spec: ReplicaSpec) -> None:
        stage = spec.pipeline.stages[spec.stage_id].name
        self._wanted[stage].append(spec)
        self._match(stage)
        if spec.replica_id not in self._running:
            logger.info("replica %s waits for a worker to join", spec.replica_id)

    def kill(self, replica_id: str) -> None:
        for wanted in self._wanted.values():
            for spec in [spec for spec in wanted if spec.replica_id == replica_id]:
                wanted.remove(spec)
        if replica_id in self._running:
            self._running.remove(replica_id)
            self._stop_worker(replica_id)

    def join(self, identity: bytes, frame: bytes) -> None:
        """A worker offers itself. What is no offer of this version is refused with the reason."""
        try:
            request = msgspec.msgpack.decode(frame, type=JoinRequest)
        except msgspec.DecodeError:
            self._answer(identity, JoinRefused("that was no request to join"))
            return
        if reason := self._objection(request):
            logger.warning("the worker of %s was refused: %s", request.host, reason)
            self._answer(identity, JoinRefused(reason))
            return
        logger.info("process %d of %s joins stage %s", request.pid, request.host, request.stage)
        waiting = self._standing_by[request.stage]
        here = [other for other in (*waiting, identity) if self._answer(other, JoinQueued())]
        self._standing_by[request.stage] = deque(here)
        self._match(request.stage)

    def poll_exits(self) -> list[tuple[str, str]]:
        """Nothing: what happens to a worker elsewhere shows at its link."""
        return []

    def exit_fds(self) -> list[int]:
        return []

    def stop(self) -> None:
        for replica_id in list(self._running):
            self.kill(replica_id)

    def _objection(self, request: JoinRequest) -> str | None:
        if request.protocol_version != PROTOCOL_VERSION:
            return (
                f"this engine speaks version {PROTOCOL_VERSION} of the workers' protocol, the"
                f" worker version {request.protocol_version}: install the same voxloom on both"
            )
        if request.stage not in self._wanted:
            known = ", ".join(self._wanted)
            return f"stage {request.stage!r} takes no remote workers; those that do: {known}"
        return None

    def _match(self, stage: str) -> None:
        wanted, standing_by = self._wanted[stage], self._standing_by[stage]
        while wanted and standing_by:
            if self._answer(standing_by.popleft(), JoinAccepted(wanted[0])):
                replica_id = wanted.popleft().replica_id
                self._running.add(replica_id)
                self._joined(replica_id)
