"""How a worker that was started by hand finds its replica: it asks the engine for one."""

from __future__ import annotations

import logging
import os
import socket
import time
import uuid

import msgspec
import zmq

from engine.placement.keys import WorkerKeys
from engine.placement.spec import (
    JOIN_PREFIX,
    JoinAccepted,
    JoinAnswer,
    JoinQueued,
    JoinRefused,
    JoinRequest,
    ReplicaSpec,
)
from worker.link import Link

logger = logging.getLogger("voxloom.worker")

_FIRST_BACKOFF_S = 0.5
_MAX_BACKOFF_S = 15.0
_MAX_HANDSHAKES = 2


class EngineLostError(Exception):
    """The engine cannot be reached, or went away: another try may succeed."""


class _HandshakeError(EngineLostError):
    """The keys do not fit, or the engine went away just then."""


class RefusedError(Exception):
    """The engine does not want this worker: its key, its stage or its version is wrong."""


def join(
    endpoint: str, stage: str, keys: WorkerKeys | None, *, give_up_after_s: float | None
) -> ReplicaSpec:
    """Ask the engine at ``endpoint`` until it has a replica of ``stage`` to run.

    ``give_up_after_s`` (None: never) bounds how long an engine that cannot be reached is tried; one
    that lets the worker stand by may do so for ever. Raises ``EngineLostError``, ``RefusedError``.
    """
    give_up_at = None if give_up_after_s is None else time.monotonic() + give_up_after_s
    backoff_s = _FIRST_BACKOFF_S
    num_handshakes_failed = 0
    while True:
        try:
            return _join_once(endpoint, stage, keys)
        except EngineLostError as error:
            num_handshakes_failed += isinstance(error, _HandshakeError)
            if num_handshakes_failed >= _MAX_HANDSHAKES:
                raise RefusedError(str(error)) from error
            if give_up_at is not None and time.monotonic() + backoff_s > give_up_at:
                raise
            logger.warning("%s; next try in %g s", error, backoff_s)
            time.sleep(backoff_s)
            backoff_s = min(2 * backoff_s, _MAX_BACKOFF_S)


def _join_once(endpoint: str, stage: str, keys: WorkerKeys | None) -> ReplicaSpec:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    identity = JOIN_PREFIX + uuid.uuid4().hex.encode()
    link = Link(context, endpoint, identity, keys)
    try:
        request = JoinRequest(stage, socket.gethostname(), os.getpid())
        link.socket.send(msgspec.msgpack.encode(request))
        spec = _await_replica(link)
    finally:
        link.close(0)
        context.destroy(linger=0)
    return _completed(spec, endpoint, keys)


def _await_replica(link: Link) -> ReplicaSpec:
    poller = zmq.Poller()
    link.register(poller)
    while True:
        poller.poll()
        while link.socket.poll(0):
            match _decode(link.socket.recv()):
                case JoinAccepted(spec):
                    return spec
                case JoinRefused(reason):
                    raise RefusedError(reason)
                case JoinQueued():
                    logger.info("joined %s", link.endpoint)
        if link.check() is not None:
            assert link.lost is not None
            raise (_HandshakeError if link.has_failed_handshake else EngineLostError)(link.lost)


def _decode(frame: bytes) -> JoinAnswer:
    try:
        answer: JoinAnswer = msgspec.msgpack.decode(frame, type=JoinAnswer)
    except msgspec.DecodeError as error:
        raise RefusedError(f"the engine is of another version: {error}") from error
    return answer


def _completed(spec: ReplicaSpec, endpoint: str, keys: WorkerKeys | None) -> ReplicaSpec:
    """``spec`` with our keys, and with the host that we know the engine by."""
    host = endpoint.rpartition(":")[0]
    data_port = spec.data_endpoint.rpartition(":")[2]
    return msgspec.structs.replace(
        spec, data_endpoint=f"{host}:{data_port}", control_endpoint=endpoint, keys=keys
    )
