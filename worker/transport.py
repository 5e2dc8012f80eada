"""A replica's two lanes to the orchestrator, and the order between them."""

from __future__ import annotations

import os
from collections import deque

import zmq

from engine.messages import (
    FromReplica,
    Pong,
    StageAbort,
    StagePause,
    StageResume,
    ToReplica,
    decode_to_replica,
    encode,
)
from engine.placement.spec import ReplicaSpec

# The orchestrator's own bound on what waits for one replica; see its shell.
_QUEUE = 10_000


class Transport:
    """Used by the loop's thread only, but for ``wake``."""

    def __init__(self, spec: ReplicaSpec) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        timeout_ms = int(spec.orphan_timeout_s * 1000)
        self._control = self._connect(spec.control_endpoint, spec.replica_id, timeout_ms)
        self._data = self._connect(spec.data_endpoint, spec.replica_id, timeout_ms)
        self._num_data_received = 0
        self._held: deque[ToReplica] = deque()  # control messages that wait for their data
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        self._poller = zmq.Poller()
        for item in (self._control, self._data, self._wake_read):
            self._poller.register(item, zmq.POLLIN)
        # The orchestrator must know both lanes before it can answer on either.
        self.send_control(Pong(0, 0))

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

    def receive(self) -> list[ToReplica]:
        """All messages that have come, in an order in which they may be carried out."""
        messages: list[ToReplica] = []
        self._held.extend(self._drain(self._control))
        self._take_due(messages)
        for message in self._drain(self._data):
            messages.append(message)
            self._num_data_received += 1
            self._take_due(messages)
        return messages

    def send(self, message: FromReplica) -> None:
        """Send on the data lane."""
        self._data.send_multipart(encode(message), copy=False)

    def send_control(self, message: FromReplica) -> None:
        self._control.send_multipart(encode(message))

    def close(self) -> None:
        self._context.destroy(linger=1000)

    def _take_due(self, messages: list[ToReplica]) -> None:
        """Move the control messages whose data messages have all come; they keep their order."""
        while self._held and _after_seq(self._held[0]) <= self._num_data_received:
            messages.append(self._held.popleft())

    def _connect(self, endpoint: str, identity: str, timeout_ms: int) -> zmq.Socket[bytes]:
        socket: zmq.Socket[bytes] = self._context.socket(zmq.DEALER)
        socket.setsockopt(zmq.IDENTITY, identity.encode())
        socket.setsockopt(zmq.SNDHWM, _QUEUE)
        socket.setsockopt(zmq.RCVHWM, _QUEUE)
        socket.setsockopt(zmq.SNDTIMEO, timeout_ms)
        socket.connect(endpoint)
        return socket

    @staticmethod
    def _drain(socket: zmq.Socket[bytes]) -> list[ToReplica]:
        messages: list[ToReplica] = []
        while True:
            try:
                frames = socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return messages
            messages.append(decode_to_replica(frames))


def _after_seq(message: ToReplica) -> int:
    if isinstance(message, StageAbort | StagePause | StageResume):
        return message.after_seq
    return 0
