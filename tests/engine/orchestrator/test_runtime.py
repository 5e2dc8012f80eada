"""The shell around the core: what replicas on sockets can do to it, and its end before its start.

The replica here is a pair of sockets that join over loopback and then send what they like.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager

import msgspec
import pytest
import zmq

from engine.async_omni_engine import AsyncOmniEngine
from engine.errors import UnavailableError
from engine.messages import Fingerprint, Hello, Pong
from engine.orchestrator import runtime
from engine.placement.spec import JoinAnswer, JoinRequest, ReplicaSpec
from engine.wire import encode
from tests.e2e.remote_worker import join_endpoint, running, sine_with, until
from tests.engine.running import INSPECT_S, QUICK, READY_S, run, tones

pytestmark = pytest.mark.process

PRINT = Fingerprint("", "", {}, 1)
REMOTE_TONE = sine_with("remote", (1,))


class Impostor:
    """A worker by its sockets only."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], spec: ReplicaSpec) -> None:
        self.name = spec.replica_id
        self.data, self.control = context.socket(zmq.DEALER), context.socket(zmq.DEALER)
        for lane, endpoint in (
            (self.control, spec.control_endpoint),
            (self.data, spec.data_endpoint),
        ):
            lane.setsockopt(zmq.IDENTITY, self.name.encode())
            lane.setsockopt(zmq.LINGER, 0)
            lane.connect(endpoint)
        self.control.send_multipart(encode(Pong(0, 0)))
        self.data.send_multipart(encode(Hello(self.name, 1, 1, PRINT)))


@contextmanager
def joined(endpoint: str) -> Iterator[Impostor]:
    """A replica that has been asked for, and says hello."""
    with zmq.Context() as context:
        asking = context.socket(zmq.DEALER)
        asking.setsockopt(zmq.IDENTITY, b"join:impostor")
        asking.setsockopt(zmq.LINGER, 0)
        asking.setsockopt(zmq.RCVTIMEO, int(READY_S * 1000))
        asking.connect(endpoint)
        asking.send(msgspec.msgpack.encode(JoinRequest("tone", "here", os.getpid())))
        spec = None
        while spec is None:
            answer: JoinAnswer = msgspec.msgpack.decode(asking.recv(), type=JoinAnswer)
            spec = getattr(answer, "spec", None)
        impostor = Impostor(context, spec)
        try:
            yield impostor
        finally:
            for socket in (asking, impostor.data, impostor.control):
                socket.close(0)


def num_replicas(engine: AsyncOmniEngine, name: str) -> int:
    look = engine._orchestrator.inspect(lambda core: name in core.pools[1].replicas)
    return look.result(INSPECT_S)


@asynccontextmanager
async def impostor_in() -> AsyncIterator[tuple[AsyncOmniEngine, Impostor]]:
    """It answers no ping, and is not given up for that while a test lasts."""
    config = msgspec.structs.replace(QUICK, heartbeat_timeout_s=3600.0)
    async with running(REMOTE_TONE, config) as engine:
        endpoint = await join_endpoint(engine)
        with joined(endpoint) as impostor:
            await engine.wait_ready(READY_S)
            yield engine, impostor


@pytest.mark.parametrize(
    "frames",
    [
        [b""],
        [b"\xc1garbage"],
        [b"\x91" * 100_000],
        [msgspec.msgpack.encode({"msg": "no_such_message"})],
        [msgspec.msgpack.encode({"msg": "pong", "seq": 1, "num_requests": 0, "more": 1})],
        [msgspec.msgpack.encode(msgspec.msgpack.Ext(1, b"\x93\x05\xa1O\x90"))],
    ],
    ids=["empty", "no msgpack", "nested", "unknown tag", "unknown field", "bad array"],
)
@pytest.mark.parametrize("lane", ["data", "control"])
def test_a_replica_that_sends_what_is_no_message_is_replaced(
    frames: Sequence[bytes], lane: str
) -> None:
    async def scenario() -> None:
        async with impostor_in() as (engine, impostor):
            getattr(impostor, lane).send_multipart(frames)
            await until(lambda: not num_replicas(engine, impostor.name))
            await until(lambda: not engine.is_ready)
            assert engine.readiness()["failure"] is None

    run(scenario)


def test_a_message_beyond_all_measure_costs_its_sender_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runtime, "_MAX_MESSAGE_BYTES", 100_000)

    async def scenario() -> None:
        async with impostor_in() as (engine, impostor):
            ends = impostor.data.get_monitor_socket(zmq.EVENT_DISCONNECTED)
            impostor.data.send(b"x" * 99_000, zmq.SNDMORE)  # a frame within the bound
            impostor.data.send(b"x" * 200_000)
            await until(lambda: bool(ends.poll(0)))
            impostor.data.disable_monitor()
            ends.close(0)
            assert engine.readiness()["failure"] is None

    run(scenario)


def test_nothing_is_kept_of_replicas_that_have_gone() -> None:
    async def scenario() -> None:
        async with impostor_in() as (engine, impostor):
            orchestrator = engine._orchestrator
            impostor.data.send_multipart([b""])
            await until(lambda: not num_replicas(engine, impostor.name))
            impostor.data.send_multipart(encode(Hello(impostor.name, 1, 1, PRINT)))
            impostor.control.send_multipart(encode(Pong(0, 0)))
            await until(lambda: not orchestrator._control_seen - set(ids(engine)))
            assert not orchestrator._early_hellos

    run(scenario)


def ids(engine: AsyncOmniEngine) -> list[str]:
    look = engine._orchestrator.inspect(lambda core: [r for p in core.pools for r in p.replicas])
    return look.result(INSPECT_S)


def test_an_engine_can_be_shut_down_before_it_was_started() -> None:
    async def scenario() -> None:
        engine = AsyncOmniEngine(tones(), QUICK)
        adding = engine.add_request_async("a", {"text": "x"}, final_stage_id=1)
        await adding
        await engine.shutdown(0.1)
        with pytest.raises(UnavailableError, match="before it was started"):
            await anext(engine.outputs("a"))
        with pytest.raises(UnavailableError):
            engine.admit()

    run(scenario)


def test_an_engine_that_is_shut_down_while_it_starts_leaves_no_process() -> None:
    async def scenario() -> None:
        engine = AsyncOmniEngine(tones(2, faulty=True, options={"never_loads": True}), QUICK)
        engine.start()
        placement = engine._orchestrator._local
        await until(lambda: len(placement._processes) == 4)
        pids = [process.popen.pid for process in placement._processes.values()]
        waiting = asyncio.create_task(engine.wait_ready(READY_S))
        await engine.shutdown(0.1)
        for pid in pids:
            with pytest.raises(ProcessLookupError):
                os.kill(pid, 0)
        with pytest.raises(UnavailableError):
            await waiting

    run(scenario)
