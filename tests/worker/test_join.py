"""Asking an engine for a replica, over real sockets."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import pytest
import zmq

from engine.messages import PROTOCOL_VERSION
from engine.pipeline import load_pipeline
from engine.placement.keys import new_server_keys, new_worker_keys
from engine.placement.spec import (
    JoinAccepted,
    JoinQueued,
    JoinRefused,
    JoinRequest,
    ReplicaSpec,
)
from tests.closed_port import closed_port
from worker.join import EngineLostError, RefusedError, join

WAIT_MS = 60_000
SPEC = ReplicaSpec("r", 1, 0, load_pipeline("sine"), "tcp://0.0.0.0:11", "tcp://0.0.0.0:22", 30.0)


@contextmanager
def engine_that_answers(*frames: bytes) -> Iterator[tuple[str, list[JoinRequest]]]:
    """Answers one request with these frames; the endpoint, and what was asked."""
    asked: list[JoinRequest] = []
    with zmq.Context() as context:
        router = context.socket(zmq.ROUTER)
        router.setsockopt(zmq.RCVTIMEO, WAIT_MS)
        port = router.bind_to_random_port("tcp://127.0.0.1")

        def answer() -> None:
            identity, request = router.recv_multipart()
            asked.append(msgspec.msgpack.decode(request, type=JoinRequest))
            for frame in frames:
                router.send_multipart([identity, frame])

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            yield f"tcp://127.0.0.1:{port}", asked
        finally:
            thread.join()
            router.close(0)


def test_a_replica_is_given_with_the_host_that_was_asked() -> None:
    frames = [msgspec.msgpack.encode(answer) for answer in (JoinQueued(), JoinAccepted(SPEC))]
    with engine_that_answers(*frames) as (endpoint, asked):
        spec = join(endpoint, "tone", None, give_up_after_s=0)

    assert [(request.stage, request.protocol_version) for request in asked] == [
        ("tone", PROTOCOL_VERSION)
    ]
    assert spec.control_endpoint == endpoint
    assert spec.data_endpoint == "tcp://127.0.0.1:11"
    assert (spec.replica_id, spec.stage_id, spec.pipeline) == ("r", 1, SPEC.pipeline)


@pytest.mark.parametrize(
    ("frame", "says"),
    [
        (msgspec.msgpack.encode(JoinRefused("not you")), "not you"),
        (msgspec.msgpack.encode({"join": "new kind"}), "another version"),
        (b"\xff", "another version"),
    ],
)
def test_a_refusal_is_final(frame: bytes, says: str) -> None:
    with (
        engine_that_answers(frame) as (endpoint, _asked),
        pytest.raises(RefusedError, match=says),
    ):
        join(endpoint, "tone", None, give_up_after_s=None)


def test_an_engine_that_is_not_there_is_given_up_in_time() -> None:
    with closed_port() as port, pytest.raises(EngineLostError, match="cannot be reached"):
        join(f"tcp://127.0.0.1:{port}", "tone", None, give_up_after_s=0)


def test_keys_that_do_not_fit_are_tried_twice_and_refused() -> None:
    """The engine here has none, the worker insists on them."""
    keys = new_worker_keys(new_server_keys().public_key)
    with zmq.Context() as context:
        router = context.socket(zmq.ROUTER)
        port = router.bind_to_random_port("tcp://127.0.0.1")
        with pytest.raises(RefusedError, match="do not agree on keys"):
            join(f"tcp://127.0.0.1:{port}", "tone", keys, give_up_after_s=None)
        router.close(0)
