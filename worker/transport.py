"""A replica's two lanes to the orchestrator, and the order between them."""

from __future__ import annotations

import os
import time
from collections import deque

import zmq

from engine.lanes import can_receive
from engine.messages import (
    FromReplica,
    Pong,
    StageAbort,
    StageCredit,
    StagePause,
    StageResume,
    Stop,
    ToReplica,
)
from engine.placement.spec import ReplicaSpec
from engine.wire import decode_to_replica, encode
from worker.link import Link

_SEND_POLL_MS = 100
_LINGER_MS = 1000


class Transport:
    """Used by the loop's thread only, but for ``wake``."""

    def __init__(self, spec: ReplicaSpec) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._send_timeout_s = spec.orphan_timeout_s
        identity = spec.replica_id.encode()
        self._control = Link(self._context, spec.control_endpoint, identity, spec.keys)
        self._data = Link(self._context, spec.data_endpoint, identity, spec.keys)
        self._num_data_received = 0
        self._is_told_to_stop = False
        self._held: deque[ToReplica] = deque()  # control messages that wait for their data
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        self._poller = zmq.Poller()
        self._control.register(self._poller)
        self._data.register(self._poller)
        self._poller.register(self._wake_read, zmq.POLLIN)
        # The orchestrator must know both lanes before it can answer on either.
        self.send_control(Pong(0, 0))

    @property
    def lost(self) -> str | None:
        """Why a link was lost; None too when the orchestrator said that it would be."""
        return None if self._is_told_to_stop else self._control.check() or self._data.check()

    def wait(self, timeout_s: float) -> None:
        """Wait until something can be received, ``wake`` is called, or the time is over."""
        ready = dict(self._poller.poll(int(timeout_s * 1000)))
        if self._wake_read in ready:
            os.read(self._wake_read, 65536)

    def wake(self) -> None:
        """End a ``wait``; from any thread."""
        try:
            os.write(self._wake_write, b"\0")
        except BlockingIOError:
            return  # it is full of wake-ups already

    def descriptors(self) -> list[int]:
        """File descriptors of which one becomes readable when something may have come.

        For a loop that waits by itself. They tell of changes, not of a state: after each
        ``receive``, and after each ``send``, what came before will not make them readable again.
        """
        return [*self._control.descriptors(), *self._data.descriptors()]

    def receive(self) -> list[ToReplica]:
        """All messages that have come, in an order in which they may be carried out.

        A lost link reads as a ``Stop``.
        """
        # Asked before the sockets are read: what came before the loss is there then.
        is_lost = self.lost is not None
        messages: list[ToReplica] = []
        self._held.extend(_drain(self._control.socket))
        self._take_due(messages)
        for message in _drain(self._data.socket):
            messages.append(message)
            self._num_data_received += 1
            self._take_due(messages)
        self._is_told_to_stop |= any(isinstance(m, Stop) for m in (*messages, *self._held))
        return [*messages, Stop()] if is_lost else messages

    def send(self, message: FromReplica) -> None:
        """Send on the data lane. Raises ``TimeoutError`` if the orchestrator does not read."""
        self._send(self._data, message)

    def send_control(self, message: FromReplica) -> None:
        self._send(self._control, message)

    def close(self) -> None:
        for link in (self._control, self._data):
            link.close(_LINGER_MS)
        self._context.destroy(linger=_LINGER_MS)
        os.close(self._wake_read)
        os.close(self._wake_write)

    def _send(self, link: Link, message: FromReplica) -> None:
        """What is sent on a lost link is dropped: the engine replays it elsewhere."""
        frames = encode(message)
        give_up_at = time.monotonic() + self._send_timeout_s
        while link.check() is None:
            try:
                link.socket.send_multipart(frames, zmq.NOBLOCK, copy=False)
                return
            except zmq.Again:
                link.socket.poll(_SEND_POLL_MS, zmq.POLLOUT)
            if time.monotonic() > give_up_at:
                raise TimeoutError("the orchestrator does not read its messages")

    def _take_due(self, messages: list[ToReplica]) -> None:
        """Move the control messages whose data messages have all come; they keep their order."""
        while self._held and _after_seq(self._held[0]) <= self._num_data_received:
            messages.append(self._held.popleft())


def _drain(socket: zmq.Socket[bytes]) -> list[ToReplica]:
    """All messages that have come."""
    messages: list[ToReplica] = []
    while can_receive(socket):
        messages.append(decode_to_replica(socket.recv_multipart(zmq.NOBLOCK)))
    return messages


def _after_seq(message: ToReplica) -> int:
    if isinstance(message, StageAbort | StagePause | StageResume | StageCredit):
        return message.after_seq
    return 0
