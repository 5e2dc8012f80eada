"""The one supervisor of replicas: start, readiness, heartbeat, restart with back-off, giving up.

    STARTING ──Hello──> READY ──scale down──> DRAINING ──nothing bound──> killed
       │ exit, failure, start deadline   │ exit, failure, heartbeat missed
       └───────────────┬─────────────────┘
                       ▼
          restart after a back-off, until max_restarts in a row failed; then the stage has FAILED

A stage that never had a ready replica fails at the first failure: its model or its options are
wrong, and trying again would only hide it. Replicas on other machines are tried again all the
same, for there the machine may be what is wrong; their start deadline runs from when they were
heard of.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from engine.config import EngineConfig
from engine.messages import PROTOCOL_VERSION, Hello, Ping, Pong
from engine.orchestrator.effects import Effect, KillReplica, SendControl, StartReplica
from engine.stage_pool import Replica, ReplicaState, StagePool


@dataclass(slots=True)
class StageHealth:
    """Restart bookkeeping of one stage."""

    was_ready: bool = False
    num_failures: int = 0
    num_restarts: int = 0
    restart_at: float | None = None
    failure: str | None = None


class ReplicaSupervisor:
    """Keeps each pool at its wanted size. ``on_lost`` gets a replica that is gone."""

    def __init__(
        self,
        pools: list[StagePool],
        config: EngineConfig,
        emit: Callable[[Effect], None],
        on_lost: Callable[[StagePool, Replica, float], None],
        on_ready: Callable[[StagePool, float], None],
    ) -> None:
        self.pools = pools
        self.health = [StageHealth() for _ in pools]
        self._config = config
        self._emit = emit
        self._on_lost = on_lost
        self._on_ready = on_ready
        self._num_started = 0
        self._ping_seq = 0
        self._last_ping_at = float("-inf")

    def start(self, now: float) -> None:
        for pool in self.pools:
            self._fill(pool, now)

    def find(self, replica_id: str) -> tuple[StagePool, Replica] | None:
        for pool in self.pools:
            if replica_id in pool.replicas:
                return pool, pool.replicas[replica_id]
        return None

    def hello(self, replica_id: str, message: Hello, now: float) -> None:
        """A replica is ready, unless it is another one than was started. The first hello counts."""
        found = self.find(replica_id)
        if found is None or found[1].state is not ReplicaState.STARTING:
            return
        pool, replica = found
        if (message.replica_id, message.stage_id) != (replica_id, pool.stage_id):
            reason = f"says that it is {message.replica_id!r} of stage {message.stage_id}"
            self.lost(replica_id, reason, now, kill=True)
            return
        if message.protocol_version != PROTOCOL_VERSION:
            reason = f"speaks version {message.protocol_version}, not {PROTOCOL_VERSION}"
            self.lost(replica_id, reason, now, kill=True)
            return
        replica.state = ReplicaState.READY
        replica.fingerprint, replica.pid = message.fingerprint, message.pid
        replica.last_pong_at = now
        health = self.health[pool.stage_id]
        health.was_ready, health.failure = True, None
        if len(_active(pool)) < pool.num_wanted and health.restart_at is None:
            health.restart_at = now + self._config.restart_backoff_s
        self._on_ready(pool, now)

    def made_output(self, replica_id: str) -> None:
        """A replica that works ends a row of failures: only loading proves nothing."""
        found = self.find(replica_id)
        if found is not None:
            self.health[found[0].stage_id].num_failures = 0

    def joined(self, replica_id: str, now: float) -> None:
        """A replica has a process; from now on its start deadline counts."""
        found = self.find(replica_id)
        if found is not None and found[1].started_at is None:
            found[1].started_at = now

    def pong(self, replica_id: str, message: Pong, now: float) -> None:
        found = self.find(replica_id)
        if found is not None:
            replica = found[1]
            replica.last_pong_at, replica.last_pong_seq = now, message.seq
            replica.num_held = message.num_requests
            replica.metrics = replica.metrics if message.metrics is None else message.metrics

    def ping_all(self) -> int:
        """Ask every ready replica for a sign of life; the number that their answers repeat."""
        self._ping_seq += 1
        for pool in self.pools:
            for replica in pool.replicas.values():
                if replica.state is not ReplicaState.STARTING:
                    self._emit(SendControl(replica.replica_id, Ping(self._ping_seq)))
        return self._ping_seq

    def lost(self, replica_id: str, reason: str, now: float, *, kill: bool) -> None:
        """A replica exited or must be given up; its requests go to ``on_lost``."""
        found = self.find(replica_id)
        if found is None:
            return
        pool, replica = found
        was_draining = replica.state is ReplicaState.DRAINING
        pool.evict(replica_id)
        if kill:
            self._emit(KillReplica(replica_id))
        if replica.on_trial is not None and not was_draining:
            self._blame_request(pool, now)
        elif not was_draining:
            self._count_failure(pool, reason, now)
        self._on_lost(pool, replica, now)

    def scale(self, pool: StagePool, num_replicas: int, now: float) -> None:
        """Change the wanted size; the highest ranks drain, so that the ranks stay 0 to n - 1."""
        pool.num_wanted = num_replicas
        for replica in sorted(_active(pool), key=lambda r: r.rank)[num_replicas:]:
            replica.state = ReplicaState.DRAINING
        self.end_drained(pool, now)
        self._fill(pool, now)

    def end_drained(self, pool: StagePool, now: float) -> None:
        """End the draining replicas to which nothing is bound any more."""
        for replica in list(pool.replicas.values()):
            if replica.state is ReplicaState.DRAINING and not replica.bound:
                pool.evict(replica.replica_id)
                self._emit(KillReplica(replica.replica_id))
                self._on_lost(pool, replica, now)

    def stop(self) -> None:
        for pool in self.pools:
            pool.num_wanted = 0
            for replica_id in list(pool.replicas):
                pool.evict(replica_id)
                self._emit(KillReplica(replica_id))

    def tick(self, now: float) -> None:
        """Start deadlines, restarts that are due, heartbeats."""
        for pool in self.pools:
            self._check_start_deadlines(pool, now)
            health = self.health[pool.stage_id]
            if health.restart_at is not None and now >= health.restart_at:
                health.restart_at = None
                health.num_restarts += 1
                self._fill(pool, now)
        if now - self._last_ping_at >= self._config.heartbeat_interval_s:
            self._heartbeat(now)

    def _heartbeat(self, now: float) -> None:
        # A clock that jumped (this process was stopped) says nothing about the replicas.
        late = now - self._last_ping_at > 3 * self._config.heartbeat_interval_s
        self._last_ping_at = now
        for pool in self.pools:
            for replica in list(pool.replicas.values()):
                if replica.state is ReplicaState.STARTING:
                    continue
                if late:
                    replica.last_pong_at = now
                silent_s = now - replica.last_pong_at
                if silent_s > self._config.heartbeat_timeout_s:
                    reason = f"gave no sign for {silent_s:.1f} s"
                    self.lost(replica.replica_id, reason, now, kill=True)
        self.ping_all()

    def _check_start_deadlines(self, pool: StagePool, now: float) -> None:
        limit_s = pool.config.start_timeout_s
        for replica in list(pool.replicas.values()):
            if replica.state is not ReplicaState.STARTING or replica.started_at is None:
                continue
            if now - replica.started_at > limit_s:
                self.lost(replica.replica_id, f"was not ready within {limit_s:g} s", now, kill=True)

    def _blame_request(self, pool: StagePool, now: float) -> None:
        """A request ended the replica in its trial, and one before: neither counts.

        Else some bad requests in a row would have the stage given up.
        """
        health = self.health[pool.stage_id]
        health.num_failures = max(0, health.num_failures - 1)
        health.num_restarts += 1
        self._fill(pool, now)

    def _count_failure(self, pool: StagePool, reason: str, now: float) -> None:
        health = self.health[pool.stage_id]
        health.num_failures += 1
        is_wrong = not health.was_ready and pool.config.placement == "local"
        gives_up = is_wrong or health.num_failures > self._config.max_restarts
        if gives_up and not _active(pool):
            health.failure = f"stage {pool.config.name!r}: replica {reason}"
            health.restart_at = None
            return
        if is_wrong:
            return  # the others' start decides: the first that is ready has the pool filled up
        exponent = min(health.num_failures - 1, 16)
        backoff_s = self._config.restart_backoff_s * 2**exponent if exponent else 0.0
        if backoff_s == 0:
            health.num_restarts += 1
            self._fill(pool, now)
            return
        restart_at = now + min(backoff_s, self._config.max_restart_backoff_s)
        health.restart_at = min(restart_at, health.restart_at or restart_at)

    def _fill(self, pool: StagePool, now: float) -> None:
        for _ in range(pool.num_wanted - len(_active(pool))):
            self._num_started += 1
            rank = pool.next_rank()
            replica_id = f"{pool.config.name}-{rank}.{self._num_started}"
            started_at = now if pool.config.placement == "local" else None
            pool.add(Replica(replica_id, rank, started_at))
            self._emit(StartReplica(pool.stage_id, replica_id, rank))


def _active(pool: StagePool) -> list[Replica]:
    """The replicas that count towards the wanted size."""
    return [r for r in pool.replicas.values() if r.state is not ReplicaState.DRAINING]
