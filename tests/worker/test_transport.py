"""The lanes of a replica over real sockets: order, and what a lost link does."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import zmq

from engine.messages import (
    FromReplica,
    Ping,
    Pong,
    StageAbort,
    StagePause,
    StageResume,
    StageUpdate,
    Stop,
    ToReplica,
)
from engine.pipeline import load_pipeline
from engine.placement.spec import ReplicaSpec
from engine.wire import decode_from_replica, encode
from tests.closed_port import closed_port
from worker.transport import Transport

WAIT_S = 60.0
WAIT_MS = 60_000


class Lanes:
    """The orchestrator's side: two ROUTER sockets."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], *endpoints: str) -> None:
        self.sockets = [context.socket(zmq.ROUTER) for _ in endpoints]
        self.endpoints = []
        for socket, endpoint in zip(self.sockets, endpoints, strict=True):
            socket.setsockopt(zmq.LINGER, 0)
            socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
            socket.bind(endpoint)
            self.endpoints.append(socket.getsockopt_string(zmq.LAST_ENDPOINT).rstrip("\0"))
        self.data, self.control = self.sockets

    def spec(self, orphan_timeout_s: float = 30.0) -> ReplicaSpec:
        pipeline = load_pipeline("sine")
        data, control = self.endpoints
        return ReplicaSpec("r", 1, 0, pipeline, data, control, orphan_timeout_s)

    def take(self, socket: zmq.Socket[bytes]) -> FromReplica:
        assert socket.poll(WAIT_MS)
        identity, *frames = socket.recv_multipart()
        assert identity == b"r"
        return decode_from_replica(frames)

    def put(self, socket: zmq.Socket[bytes], message: ToReplica) -> None:
        socket.send_multipart([b"r", *encode(message)])

    def close(self) -> None:
        for socket in self.sockets:
            socket.close(0)


@contextmanager
def connected(*endpoints: str, orphan_timeout_s: float = 30.0) -> Iterator[tuple[Lanes, Transport]]:
    """Both ends, with both lanes known to the orchestrator's side."""
    with zmq.Context() as context:
        lanes = Lanes(context, *endpoints)
        transport = Transport(lanes.spec(orphan_timeout_s))
        try:
            assert lanes.take(lanes.control) == Pong(0, 0)
            transport.send(Pong(1, 1))
            assert lanes.take(lanes.data) == Pong(1, 1)
            yield lanes, transport
        finally:
            lanes.close()
            transport.close()


def receive(transport: Transport, num_messages: int) -> list[ToReplica]:
    """So many messages. What ends a wait may be one that has to wait for others."""
    messages: list[ToReplica] = []
    give_up_at = time.monotonic() + WAIT_S
    while len(messages) < num_messages:
        assert time.monotonic() < give_up_at, f"only {messages} came"
        transport.wait(WAIT_S)
        messages += transport.receive()
    return messages


def update(unit: int) -> StageUpdate:
    return StageUpdate("q", unit, {})


def over(kind: str, tmp_path: Path) -> tuple[str, str]:
    if kind == "tcp":
        return "tcp://127.0.0.1:*", "tcp://127.0.0.1:*"
    return f"ipc://{tmp_path}/d", f"ipc://{tmp_path}/c"


@pytest.mark.parametrize("kind", ["ipc", "tcp"])
def test_a_control_message_waits_for_the_data_sent_before_it(kind: str, tmp_path: Path) -> None:
    with connected(*over(kind, tmp_path)) as (lanes, transport):
        lanes.put(lanes.control, StageAbort(["q"], after_seq=2))
        lanes.put(lanes.control, StageAbort(["p"], after_seq=0))  # behind the other: one order
        lanes.put(lanes.control, Ping(7))
        transport.wait(WAIT_S)
        assert transport.receive() == []
        for unit in range(3):
            lanes.put(lanes.data, update(unit))

        assert receive(transport, 6) == [
            update(0),
            update(1),
            StageAbort(["q"], 2),
            StageAbort(["p"], 0),
            Ping(7),
            update(2),
        ]


def test_a_control_message_whose_data_has_come_overtakes_what_is_queued(tmp_path: Path) -> None:
    with connected(*over("ipc", tmp_path)) as (lanes, transport):
        lanes.put(lanes.data, update(0))
        assert receive(transport, 1) == [update(0)]
        lanes.put(lanes.control, StagePause("q", after_seq=1))
        lanes.put(lanes.control, StageResume("q", after_seq=1))

        assert receive(transport, 2) == [StagePause("q", 1), StageResume("q", 1)]


def test_wake_ends_a_wait_without_a_message(tmp_path: Path) -> None:
    with connected(*over("ipc", tmp_path)) as (_lanes, transport):
        for _ in range(100_000):  # more than the pipe holds
            transport.wake()
        before_s = time.monotonic()
        transport.wait(WAIT_S)
        assert time.monotonic() - before_s < WAIT_S
        assert transport.receive() == []


@pytest.mark.parametrize("closed", [0, 1])
def test_either_lanes_loss_over_tcp_is_a_stop(closed: int, tmp_path: Path) -> None:
    with connected(*over("tcp", tmp_path)) as (lanes, transport):
        assert transport.lost is None
        lanes.sockets[closed].close(0)

        assert receive(transport, 1) == [Stop()]
        assert transport.lost is not None
        assert lanes.endpoints[closed] in transport.lost
        transport.send(Pong(2, 2))  # dropped, and does not wait
        transport.send_control(Pong(2, 2))


def test_a_stop_that_came_before_the_end_of_the_link_is_no_loss(tmp_path: Path) -> None:
    with connected(*over("tcp", tmp_path)) as (lanes, transport):
        lanes.put(lanes.control, Stop())
        for socket in lanes.sockets:
            socket.close(WAIT_MS)
        while transport._data.check() is None or transport._control.check() is None:
            transport.wait(WAIT_S)

        assert Stop() in transport.receive()
        assert transport.lost is None


def test_a_lane_that_nobody_listens_to_is_a_stop() -> None:
    with closed_port() as port:
        endpoint = f"tcp://127.0.0.1:{port}"
        transport = Transport(ReplicaSpec("r", 1, 0, load_pipeline("sine"), endpoint, endpoint, 30))
        assert receive(transport, 1) == [Stop()]
        assert "cannot be reached" in str(transport.lost)
        transport.close()


def test_an_orchestrator_that_does_not_read_is_an_error_after_the_orphan_timeout(
    tmp_path: Path,
) -> None:
    def fill(transport: Transport) -> None:
        for seq in range(100_000):
            transport.send(Pong(seq, 0))

    with (
        connected(*over("ipc", tmp_path), orphan_timeout_s=0.3) as (_lanes, transport),
        pytest.raises(TimeoutError, match="does not read"),
    ):
        fill(transport)
