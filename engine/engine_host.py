"""What runs behind the engine's calls: the orchestrator, the request table, start and end."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from engine.admission import AdmissionController, AdmissionTicket
from engine.config import EngineConfig
from engine.errors import InvalidRequestError, UnavailableError
from engine.messages import (
    AbortedMessage,
    DrainMessage,
    ErrorMessage,
    OutputMessage,
    ScaleMessage,
    ShutdownMessage,
    ToCaller,
)
from engine.metrics import EngineMetrics
from engine.orchestrator.core import OrchestratorCore
from engine.orchestrator.runtime import Orchestrator
from engine.orchestrator.snapshot import Snapshot
from engine.output_queue import is_terminal
from engine.pipeline import PipelineConfig
from engine.request_table import RequestTable
from engine.wake_ups import WakeUps, call_on

# Input processing is pure Python: more threads than this would only take turns.
_NUM_INPUT_THREADS = 2
# Longer than a replica may hang before its heartbeat is missed: until then it is waited for.
_CENSUS_TIMEOUT_S = 60.0
_CENSUS_INTERVAL_S = 0.005

T = TypeVar("T")


class EngineHost:
    """The part of the engine that is the same for every request."""

    def __init__(self, pipeline: PipelineConfig, config: EngineConfig | None = None) -> None:
        self.pipeline = pipeline
        self.config = config or EngineConfig()
        self._admission = AdmissionController(self.config.max_running, self.config.max_waiting)
        self._lock = threading.Lock()
        self._table = RequestTable()
        self._wake_ups = WakeUps()  # of the orchestrator's thread
        self._abort_ids = itertools.count(1)
        self._abort_waiters: dict[int, Callable[[], None]] = {}
        self._state_waiters: list[Callable[[], None]] = []
        self._crash: str | None = None
        self._is_stopped = False
        self._pool = ThreadPoolExecutor(_NUM_INPUT_THREADS, "input")
        self._orchestrator = Orchestrator(
            pipeline,
            self.config,
            self._deliver,
            self._wake_ups.carry_out,
            self._abort_answered,
            self._ended,
            self._state_changed,
        )
        self.metrics = EngineMetrics(lambda: self._orchestrator.snapshot)

    # --- life ------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the orchestrator and the replicas. Returns at once; see ``wait_ready``."""
        self._orchestrator.start()

    @property
    def snapshot(self) -> Snapshot:
        """The orchestrator's state, at most a tenth of a second old."""
        return self._orchestrator.snapshot

    @property
    def is_ready(self) -> bool:
        return self._crash is None and not self._is_stopped and self.snapshot.is_ready

    def admit(self) -> AdmissionTicket:
        """A ticket for one request. Raises ``OverloadedError`` or ``UnavailableError``."""
        if self._crash is not None:
            raise UnavailableError(self._crash)
        return self._admission.take()

    async def wait_ready(self, timeout_s: float | None = None) -> None:
        """Wait until each stage has a ready replica.

        Raises ``UnavailableError`` with the reason when a stage cannot start, or in time.
        """
        try:
            async with asyncio.timeout(timeout_s):
                while not self.is_ready:
                    event = self._waiter(self._state_waiters)
                    if reason := self._crash or self.snapshot.failure:
                        raise UnavailableError(reason)
                    if self.is_ready:
                        return
                    await event.wait()
        except TimeoutError:
            raise UnavailableError(f"the engine was not ready within {timeout_s:g} s") from None

    async def shutdown(self, drain_timeout_s: float | None = None) -> None:
        """Take no new requests, let the running ones finish or hit the deadline, end all."""
        self._admission.close()
        drain_s = self.config.drain_timeout_s if drain_timeout_s is None else drain_timeout_s
        self._orchestrator.submit(DrainMessage(time.monotonic() + drain_s))
        loop, idle = asyncio.get_running_loop(), asyncio.Event()
        self._table.when_idle(lambda: call_on(loop, idle.set))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(drain_s + 1):
                await idle.wait()
        self._table.close("the engine has been shut down")
        self._is_stopped = True
        self._orchestrator.submit(ShutdownMessage())
        await asyncio.to_thread(self._orchestrator.join)
        self._pool.shutdown(wait=False)

    def readiness(self) -> dict[str, Any]:
        """Per stage: ready and wanted replicas, restarts, and why it was given up, if it was."""
        snapshot = self.snapshot
        stages = {
            s.name: {
                "ready": s.num_ready,
                "wanted": s.num_wanted,
                "restarts": s.num_restarts,
                "failure": s.failure,
            }
            for s in snapshot.stages
        }
        return {
            "ready": self.is_ready,
            "failure": self._crash or snapshot.failure,
            "stages": stages,
        }

    def scale(self, stage_id: int, num_replicas: int) -> None:
        """Set the number of replicas of a stage; surplus ones finish what they have first."""
        if not 0 <= stage_id <= self.pipeline.final_stage_id:
            raise InvalidRequestError(
                f"stage_id must be between 0 and {self.pipeline.final_stage_id}", param="stage_id"
            )
        if num_replicas < 1:
            raise InvalidRequestError("num_replicas must be at least 1", param="num_replicas")
        self._orchestrator.submit(ScaleMessage(stage_id, num_replicas))

    def check_integrity(self) -> None:
        """Assert that nothing is left of any request, here, in the orchestrator and the workers.

        Call when no request is running, and not on an event loop: it waits for the replicas.
        """
        assert self._table.num_live == 0, f"{self._table.num_live} requests are still running"
        assert self._admission.num_taken == 0, "tickets are still out"
        held = self._census()
        self._orchestrator.inspect(OrchestratorCore.check_integrity).result(_CENSUS_TIMEOUT_S)
        assert not any(held.values()), f"replicas still hold requests: {held}"

    # --- on the orchestrator's thread ------------------------------------------------------------

    def _deliver(self, message: ToCaller) -> None:
        request = self._table.find(message.request_id)
        if request is None:
            return
        if isinstance(message, OutputMessage) and message.finished:
            self.metrics.queue_wait_s.observe(message.queue_wait_ms / 1000)
            self.metrics.preprocess_s.observe(message.preprocess_ms / 1000)
        if is_terminal(message):
            self._table.end(request)
        request.queue.put(message, self._wake_ups)

    def _abort_answered(self, message: AbortedMessage) -> None:
        wake = self._abort_waiters.pop(message.abort_id, None)
        if wake is not None:
            wake()

    def _state_changed(self, _snapshot: Snapshot) -> None:
        with self._lock:
            waiters, self._state_waiters = self._state_waiters, []
        for wake in waiters:
            wake()

    def _ended(self, reason: str) -> None:
        """The orchestrator has ended or failed: answer everyone who waits for it."""
        self._crash = reason
        self._admission.close()
        self._table.close(reason)
        for request_id in self._table.live_ids():
            self._deliver(ErrorMessage(request_id, "unavailable", reason))
        self._wake_ups.carry_out()
        for abort_id in list(self._abort_waiters):
            self._abort_answered(AbortedMessage(abort_id))
        self._state_changed(self.snapshot)

    def _waiter(self, waiters: list[Callable[[], None]]) -> asyncio.Event:
        loop = asyncio.get_running_loop()
        event = asyncio.Event()
        with self._lock:
            waiters.append(lambda: call_on(loop, event.set))
        return event

    def _census(self) -> dict[str, int]:
        """How many requests each replica holds, asked once all aborts are through."""
        self._poll(lambda core: None if core.is_releasing else True)
        seq = self._orchestrator.inspect(lambda core: core.supervisor.ping_all()).result()

        def count(core: OrchestratorCore) -> dict[str, int] | None:
            replicas = [r for pool in core.pools for r in pool.ready()]
            if any(r.last_pong_seq < seq for r in replicas):
                return None
            return {r.replica_id: r.num_held for r in replicas}

        return self._poll(count)

    def _poll(self, look: Callable[[OrchestratorCore], T | None]) -> T:
        """What ``look`` finds in the core, as soon as it finds something."""
        give_up_at = time.monotonic() + _CENSUS_TIMEOUT_S
        while (found := self._orchestrator.inspect(look).result()) is None:
            assert time.monotonic() < give_up_at, "a replica does not answer"
            time.sleep(_CENSUS_INTERVAL_S)
        return found
