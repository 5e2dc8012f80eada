"""The shell around the orchestrator's core: its thread, sockets, processes and timers."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

import msgspec
import zmq

from engine.config import EngineConfig
from engine.errors import ConfigError
from engine.lanes import can_receive
from engine.messages import (
    AbortedMessage,
    Hello,
    ShutdownMessage,
    Stop,
    ToCaller,
    ToOrchestrator,
    ToReplica,
)
from engine.orchestrator.core import OrchestratorCore
from engine.orchestrator.effects import (
    AnswerAbort,
    Deliver,
    Effect,
    KillReplica,
    SendControl,
    SendData,
    StartReplica,
)
from engine.orchestrator.snapshot import Snapshot, take_snapshot
from engine.pipeline import PipelineConfig, PlacementKind
from engine.placement.by_stage import PlacementByStage
from engine.placement.local import LocalPlacement
from engine.placement.network import Network
from engine.placement.on_ray import RayPlacement
from engine.placement.remote import RemotePlacement
from engine.placement.spec import JOIN_PREFIX, JoinAnswer, Placement, ReplicaSpec
from engine.wire import MessageDecodeError, decode_from_replica, encode

logger = logging.getLogger("voxloom.engine.orchestrator")

# Messages that may wait for one replica. Its loop reads all the time, whatever it computes, so a
# replica that lets this many pile up hangs, and is replaced.
_SEND_QUEUE = 10_000
# Messages read from the sockets before the callers' messages are looked at again.
_READ_BURST = 256
# A step's output is some hundred kilobytes a row; whoever sends more loses its connection.
_MAX_MESSAGE_BYTES = 64 * 2**20
_TICK_INTERVAL_S = 0.1
# Workers elsewhere are told to stop, not killed: give the message time to leave.
_STOP_LINGER_MS = 200

T = TypeVar("T")


class Orchestrator:
    """Runs the core on its own thread. ``submit`` may be called from any thread.

    ``deliver``, ``delivered`` (after all that one message made it deliver), ``abort_answered``,
    ``ended`` and ``state_changed`` are called on the orchestrator's thread and must neither block
    nor raise. Raises ``ConfigError`` if the pipeline
    asks for other machines and the engine's settings do not let it.
    """

    def __init__(
        self,
        pipeline: PipelineConfig,
        config: EngineConfig,
        deliver: Callable[[ToCaller], None],
        delivered: Callable[[], None],
        abort_answered: Callable[[AbortedMessage], None],
        ended: Callable[[str], None],
        state_changed: Callable[[Snapshot], None],
    ) -> None:
        self.core = OrchestratorCore(pipeline, config)
        self._pipeline = pipeline
        self._config = config
        self._deliver = deliver
        self._delivered = delivered
        self._abort_answered = abort_answered
        self._ended = ended
        self._state_changed = state_changed
        # Bounded by the tickets: a caller has a few messages under way per request it may run.
        self._queue: deque[ToOrchestrator | Callable[[], None]] = deque()
        self._wake_read, self._wake_write = os.pipe()
        self._wake_lock = threading.Lock()
        self._takes_items = True
        self._effects: deque[Effect] = deque()
        self._is_carrying_out = False
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        self._thread = threading.Thread(target=self._run, name="orchestrator", daemon=True)
        self.network = Network(pipeline, config)
        self._remote = RemotePlacement(pipeline, self._answer_join, self._stop_worker, self._joined)
        self._local = LocalPlacement()
        kinds: dict[PlacementKind, Placement] = {"local": self._local, "remote": self._remote}
        if any(stage.placement == "ray" for stage in pipeline.stages):
            assert self.network.curve is not None, "what runs on Ray is never without keys"
            kinds["ray"] = RayPlacement(config, self.network.curve)
        self._placement: Placement = PlacementByStage(kinds)
        self._stopping = False
        self._last_tick_at = 0.0
        self._control_seen: set[str] = set()
        self._early_hellos: dict[str, Hello] = {}
        self._exit_fds: list[int] = []
        self.snapshot = take_snapshot(self.core)

    def start(self) -> None:
        self._thread.start()

    def submit(self, message: ToOrchestrator) -> bool:
        """Queue a message; False if the orchestrator has ended and nobody will answer it."""
        return self._enqueue(message)

    def inspect(self, look: Callable[[OrchestratorCore], T]) -> Future[T]:
        """Run ``look`` on the orchestrator's thread, where the core may be read."""
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(look(self.core))
            except BaseException as error:
                future.set_exception(error)

        if not self._enqueue(run):
            future.set_exception(RuntimeError("the orchestrator has ended"))
        return future

    def _enqueue(self, item: ToOrchestrator | Callable[[], None]) -> bool:
        """Queue for the thread, unless it has ended: then there is nobody to tell."""
        with self._wake_lock:
            if not self._takes_items:
                return False
            self._queue.append(item)
            with contextlib.suppress(BlockingIOError):  # it is full of wake-ups already
                os.write(self._wake_write, b"\0")
        return True

    def join(self, timeout_s: float | None = None) -> None:
        """Wait for the thread to end, after a ``ShutdownMessage``; it may never have begun."""
        if self._thread.ident is None:
            self._answer_the_rest("the engine was shut down before it was started")
        else:
            self._thread.join(timeout_s)
        with self._wake_lock:
            if not self._thread.is_alive() and self._wake_write >= 0:
                os.close(self._wake_read)
                os.close(self._wake_write)
                self._wake_read = self._wake_write = -1

    # --- thread ----------------------------------------------------------------------------------

    def _run(self) -> None:
        folder = tempfile.mkdtemp(prefix="voxloom-")
        context = zmq.Context()
        try:
            self._open_sockets(context, folder)
            self._carry_out(self.core.start(time.monotonic()))
            while not self._stopping:
                self._turn()
            reason = "the engine has been shut down"
        except ConfigError as error:
            reason = str(error)
        except Exception as error:
            logger.critical("the orchestrator failed", exc_info=True)
            reason = f"the orchestrator failed: {type(error).__name__}"
        try:
            self._answer_the_rest(reason)
        finally:
            self._placement.stop()
            self.network.close()
            context.destroy(linger=_STOP_LINGER_MS if self.network.is_needed else 0)
            shutil.rmtree(folder, ignore_errors=True)

    def _answer_the_rest(self, reason: str) -> None:
        """Nothing is taken from now on; whoever waits for an answer gets one."""
        with self._wake_lock:
            self._takes_items = False
        while self._queue:
            item = self._queue.popleft()
            if not isinstance(item, msgspec.Struct):
                item()
        self._ended(reason)

    def _open_sockets(self, context: zmq.Context[zmq.Socket[bytes]], folder: str) -> None:
        self._data_endpoint = f"ipc://{folder}/data"
        self._control_endpoint = f"ipc://{folder}/control"
        self._data = _router(context, self._data_endpoint)
        self._control = _router(context, self._control_endpoint)
        self.network.open(context, self._data, self._control)
        self._poller = self._make_poller()

    def _make_poller(self) -> zmq.Poller:
        poller = zmq.Poller()
        poller.register(self._data, zmq.POLLIN)
        poller.register(self._control, zmq.POLLIN)
        for fd in (self._wake_read, *self._exit_fds):
            poller.register(fd, zmq.POLLIN)
        return poller

    def _turn(self) -> None:
        self._wait()
        self._read(self._control, is_control=True)
        self._read(self._data, is_control=False)
        self._read_callers()
        for replica_id, reason in self._placement.poll_exits():
            logger.error("replica %s %s", replica_id, reason)
            self._forget_lanes(replica_id)
            self._carry_out(self.core.replica_exited(replica_id, reason, time.monotonic()))
        now = time.monotonic()
        if now - self._last_tick_at >= _TICK_INTERVAL_S:
            self._last_tick_at = now
            self._carry_out(self.core.tick(now))
            self._publish()

    def _publish(self) -> None:
        before, self.snapshot = self.snapshot, take_snapshot(self.core)
        if (before.is_ready, before.failure) != (self.snapshot.is_ready, self.snapshot.failure):
            self._state_changed(self.snapshot)

    def _wait(self) -> None:
        exit_fds = self._placement.exit_fds()
        if exit_fds != self._exit_fds:
            self._exit_fds = exit_fds
            self._poller = self._make_poller()
        if self._queue:
            return
        ready = dict(self._poller.poll(int(_TICK_INTERVAL_S * 1000)))
        if self._wake_read in ready:
            os.read(self._wake_read, 65536)

    def _read(self, socket: zmq.Socket[bytes], *, is_control: bool) -> None:
        for _ in range(_READ_BURST):
            if not can_receive(socket):
                return
            identity, *frames = socket.recv_multipart(zmq.NOBLOCK)
            if identity.startswith(JOIN_PREFIX):
                self._remote.join(identity, frames[0] if frames else b"")
                continue
            self._take(identity.decode("utf-8", "replace"), frames, is_control=is_control)

    def _take(self, replica_id: str, frames: list[bytes], *, is_control: bool) -> None:
        """A replica's message; one that has been given up is not listened to."""
        if self.core.supervisor.find(replica_id) is None:
            return
        try:
            message = decode_from_replica(frames)
        except MessageDecodeError as error:
            # What was in it is lost, and whoever sends such things is not to be trusted.
            self._give_up(replica_id, f"sent what is no message: {error}")
            return
        if is_control and replica_id not in self._control_seen:
            self._control_seen.add(replica_id)
            self._joined(replica_id)
            early = self._early_hellos.pop(replica_id, None)
            if early is not None:
                self._hello(replica_id, early)
        if isinstance(message, Hello):
            self._hello(replica_id, message)
        else:
            self._carry_out(self.core.handle_replica(replica_id, message, time.monotonic()))

    def _hello(self, replica_id: str, message: Hello) -> None:
        """A replica is ready once both of its lanes are known to the sockets."""
        if replica_id not in self._control_seen:
            self._early_hellos[replica_id] = message
            return
        logger.info("replica %s says hello", replica_id)
        self._carry_out(self.core.handle_replica(replica_id, message, time.monotonic()))
        self._publish()

    def _read_callers(self) -> None:
        while self._queue:
            message = self._queue.popleft()
            if not isinstance(message, msgspec.Struct):
                message()
                self._carry_out(self.core.take_effects())
                continue
            self._carry_out(self.core.handle(message, time.monotonic()))
            if isinstance(message, ShutdownMessage):
                self._stopping = True

    # --- effects ---------------------------------------------------------------------------------

    def _carry_out(self, effects: list[Effect]) -> None:
        """Carry out effects in order; those of a failure on the way come behind the rest."""
        self._effects.extend(effects)
        if self._is_carrying_out:
            return
        self._is_carrying_out = True
        try:
            while self._effects:
                self._carry_out_one(self._effects.popleft())
        finally:
            self._is_carrying_out = False
            self._delivered()

    def _carry_out_one(self, effect: Effect) -> None:
        match effect:
            case Deliver(message):
                self._deliver(message)
            case SendData(replica_id, message):
                self._send(self._data, replica_id, message)
            case SendControl(replica_id, message):
                self._send(self._control, replica_id, message)
            case AnswerAbort(message):
                self._abort_answered(message)
            case StartReplica():
                self._placement.start(self._replica_spec(effect))
            case KillReplica(replica_id):
                logger.info("replica %s is ended", replica_id)
                self._placement.kill(replica_id)
                self._forget_lanes(replica_id)

    def _send(self, socket: zmq.Socket[bytes], replica_id: str, message: ToReplica) -> None:
        if self.core.supervisor.find(replica_id) is None:
            return  # given up on the way here; its requests are elsewhere
        try:
            frames = [replica_id.encode(), *encode(message)]
        except (TypeError, ValueError, OverflowError):
            # Input processing refuses such prompts; what a stage made must not end the engine.
            logger.exception("a message cannot be sent")
            request_id = getattr(message, "request_id", "")
            self._carry_out(self.core.fail_request(request_id, "a message cannot be sent"))
            return
        try:
            socket.send_multipart(frames, zmq.NOBLOCK, copy=True)
        except zmq.Again:
            self._give_up(replica_id, "does not read its messages")
        except zmq.ZMQError as error:
            # EHOSTUNREACH: its connection is gone. The exit of its process, or its missing
            # heartbeat, may come later; what is bound to it should not wait for that.
            self._give_up(replica_id, f"cannot be reached: {error}")

    def _give_up(self, replica_id: str, reason: str) -> None:
        logger.error("replica %s %s", replica_id, reason)
        self._placement.kill(replica_id)
        self._forget_lanes(replica_id)
        self._carry_out(self.core.replica_exited(replica_id, reason, time.monotonic()))

    def _forget_lanes(self, replica_id: str) -> None:
        self._control_seen.discard(replica_id)
        self._early_hellos.pop(replica_id, None)

    def _joined(self, replica_id: str) -> None:
        self._carry_out(self.core.replica_joined(replica_id, time.monotonic()))

    def _answer_join(self, identity: bytes, answer: JoinAnswer) -> bool:
        try:
            self._control.send_multipart([identity, msgspec.msgpack.encode(answer)], zmq.NOBLOCK)
        except zmq.ZMQError:
            return False
        return True

    def _stop_worker(self, replica_id: str) -> None:
        """Best effort: a worker that cannot be reached has lost its link and ends by itself."""
        with contextlib.suppress(zmq.ZMQError):
            self._control.send_multipart([replica_id.encode(), *encode(Stop())], zmq.NOBLOCK)

    def _replica_spec(self, effect: StartReplica) -> ReplicaSpec:
        is_local = self._pipeline.stages[effect.stage_id].placement == "local"
        return ReplicaSpec(
            replica_id=effect.replica_id,
            stage_id=effect.stage_id,
            rank=effect.rank,
            pipeline=self._pipeline,
            data_endpoint=self._data_endpoint if is_local else self.network.data_endpoint,
            control_endpoint=(
                self._control_endpoint if is_local else self.network.control_endpoint
            ),
            orphan_timeout_s=max(30.0, 3 * self._config.heartbeat_timeout_s),
        )


def _router(context: zmq.Context[zmq.Socket[bytes]], endpoint: str) -> zmq.Socket[bytes]:
    socket: zmq.Socket[bytes] = context.socket(zmq.ROUTER)
    socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.SNDHWM, _SEND_QUEUE)
    socket.setsockopt(zmq.RCVHWM, _SEND_QUEUE)
    socket.setsockopt(zmq.MAXMSGSIZE, _MAX_MESSAGE_BYTES)
    socket.bind(endpoint)
    return socket
