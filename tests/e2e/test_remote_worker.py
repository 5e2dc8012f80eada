"""Workers on other machines: who is let in, and what happens when one goes."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec
import pytest
import zmq
from zmq.utils.monitor import recv_monitor_message

from engine.async_omni_engine import AsyncOmniEngine
from engine.config import EngineConfig
from engine.errors import UnavailableError
from engine.messages import Fingerprint, Hello, Pong
from engine.pipeline import PIPELINE_DIR
from engine.placement.keys import (
    WorkerKeys,
    create_worker_key,
    new_server_keys,
    new_worker_keys,
    read_server_keys,
    read_worker_keys,
)
from engine.placement.spec import JoinRequest
from engine.wire import Frame, encode
from tests.e2e.remote_worker import (
    TIMEOUT_S,
    Worker,
    join_endpoint,
    keyed_config,
    running,
    sine_with,
    speak,
    until,
    workers,
)
from tests.e2e.server_process import free_port, serving

pytestmark = pytest.mark.process

REMOTE_TONE = sine_with("remote", (1,))


@pytest.fixture(scope="module")
def undisturbed() -> bytes:
    """What the same pipeline speaks with local replicas."""

    async def main() -> bytes:
        async with running(sine_with("local", ())) as engine:
            await engine.wait_ready(TIMEOUT_S)
            return await speak(engine, "r")

    return asyncio.run(main())


def num_ready(engine: AsyncOmniEngine) -> int:
    return int(engine.readiness()["stages"]["tone"]["ready"])


def num_restarts(engine: AsyncOmniEngine) -> int:
    return int(engine.readiness()["stages"]["tone"]["restarts"])


# --- joining -------------------------------------------------------------------------------------


def test_a_worker_with_an_allowed_key_speaks_the_same_bytes(
    tmp_path: Path, undisturbed: bytes
) -> None:
    left = ExitStack()

    async def main() -> bytes:
        async with running(REMOTE_TONE, keyed_config(tmp_path / "keys")) as engine:
            endpoint = await join_endpoint(engine)
            worker = Worker(endpoint, "tone", "--key-file", str(tmp_path / "keys" / "worker.key"))
            left.enter_context(workers(worker))
            await engine.wait_ready(TIMEOUT_S)
            spoken = await speak(engine, "r")
            await asyncio.to_thread(engine.check_integrity)
        assert worker.wait()[0] == 0
        return spoken

    with left:
        assert asyncio.run(main()) == undisturbed


def test_on_loopback_a_worker_needs_no_key(undisturbed: bytes) -> None:
    async def main() -> bytes:
        async with running(sine_with("remote", (0, 1))) as engine:
            endpoint = await join_endpoint(engine)
            with workers(Worker(endpoint, "notes"), Worker(endpoint, "tone")):
                await engine.wait_ready(TIMEOUT_S)
                return await speak(engine, "r")

    assert asyncio.run(main()) == undisturbed


def write_keys(path: Path, keys: WorkerKeys) -> str:
    path.write_bytes(msgspec.json.encode(keys))
    return str(path)


def key_options(folder: Path) -> dict[str, tuple[tuple[str, ...], str]]:
    """Workers that must be refused: their options, and what they are told."""
    server = read_server_keys(folder / "server.key")
    worker = read_worker_keys(folder / "worker.key")
    unknown = write_keys(folder / "unknown.key", new_worker_keys(server.public_key))
    other = msgspec.structs.replace(worker, server_key=new_server_keys().public_key)
    return {
        "no key": ((), "give --key-file if"),
        "unknown key": (("--key-file", unknown), "does not know this worker's key"),
        "another engine's key": (
            ("--key-file", write_keys(folder / "other.key", other)),
            "do not agree on keys",
        ),
    }


def test_a_worker_without_a_known_key_is_refused_and_told_why(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(REMOTE_TONE, keyed_config(tmp_path / "keys")) as engine:
            endpoint = await join_endpoint(engine)
            for options, says in key_options(tmp_path / "keys").values():
                with workers(worker := Worker(endpoint, "tone", *options)):
                    status, written = await asyncio.to_thread(worker.wait)
                assert status == 3
                assert says in written
                assert num_ready(engine) == 0

    asyncio.run(main())


def test_a_wrong_stage_or_version_is_refused_and_told_why(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(REMOTE_TONE) as engine:
            endpoint = await join_endpoint(engine)
            for worker, says in (
                (Worker(endpoint, "nowhere"), "those that do: tone"),
                (Worker(endpoint, "notes"), "those that do: tone"),
                (Worker(endpoint, "tone", version=99), "the worker version 99"),
            ):
                with workers(worker):
                    status, written = await asyncio.to_thread(worker.wait)
                assert status == 3
                assert says in written
                assert "Traceback" not in written

    asyncio.run(main())


def test_a_withdrawn_key_is_refused_and_an_added_one_is_let_in(tmp_path: Path) -> None:
    folder = tmp_path / "keys"

    async def main() -> None:
        async with running(REMOTE_TONE, keyed_config(folder)) as engine:
            endpoint = await join_endpoint(engine)
            (folder / "allowed-workers").write_text("")
            create_worker_key(folder, "late")
            old = Worker(endpoint, "tone", "--key-file", str(folder / "worker.key"))
            late = Worker(endpoint, "tone", "--key-file", str(folder / "late.key"))
            with workers(old, late):
                await engine.wait_ready(TIMEOUT_S)
                assert (await asyncio.to_thread(old.wait))[0] == 3

    asyncio.run(main())


# --- strangers with sockets of their own ---------------------------------------------------------


class Stranger:
    """A socket that does what a worker's does, with keys of its own choice."""

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], endpoint: str, keys: WorkerKeys | None
    ) -> None:
        self.socket = context.socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, 0)
        if keys is not None:
            self.socket.setsockopt(zmq.CURVE_PUBLICKEY, keys.public_key.encode())
            self.socket.setsockopt(zmq.CURVE_SECRETKEY, keys.secret_key.encode())
            self.socket.setsockopt(zmq.CURVE_SERVERKEY, keys.server_key.encode())
        self._monitor = self.socket.get_monitor_socket(
            zmq.Event.HANDSHAKE_SUCCEEDED
            | zmq.Event.HANDSHAKE_FAILED_AUTH
            | zmq.Event.HANDSHAKE_FAILED_PROTOCOL
        )
        self._monitor.setsockopt(zmq.RCVTIMEO, round(TIMEOUT_S * 1000))
        self.socket.setsockopt(zmq.RCVTIMEO, round(TIMEOUT_S * 1000))
        self._endpoint = endpoint

    def send(self, identity: str, frames: Sequence[Frame]) -> zmq.Event:
        """Send under this name; how the handshake ended."""
        self.socket.setsockopt(zmq.IDENTITY, identity.encode())
        self.socket.connect(self._endpoint)
        self.socket.send_multipart(frames)
        return zmq.Event(recv_monitor_message(self._monitor)["event"])

    def close(self) -> None:
        self.socket.disable_monitor()
        self._monitor.close(0)
        self.socket.close(0)


@contextmanager
def strangers(endpoints: Sequence[str], keys: WorkerKeys | None) -> Iterator[list[Stranger]]:
    with zmq.Context() as context:
        opened = [Stranger(context, endpoint, keys) for endpoint in endpoints]
        try:
            yield opened
        finally:
            for each in opened:
                each.close()


@pytest.mark.parametrize("has_key", [False, True])
def test_a_stranger_reads_nothing_and_is_not_heard(
    has_key: bool, tmp_path: Path, undisturbed: bytes
) -> None:
    """It takes the name of the replica that is wanted, says hello, and asks to join."""
    folder = tmp_path / "keys"
    refused = zmq.Event.HANDSHAKE_FAILED_AUTH if has_key else zmq.Event.HANDSHAKE_FAILED_PROTOCOL

    async def main() -> None:
        async with running(REMOTE_TONE, keyed_config(folder)) as engine:
            control = await join_endpoint(engine)
            data = engine._orchestrator.network.data_endpoint
            server_key = read_server_keys(folder / "server.key").public_key
            keys = new_worker_keys(server_key) if has_key else None
            (name,) = engine._orchestrator.core.pools[1].replicas
            hello = Hello(name, 1, 1, Fingerprint("", "", {}, 1))
            offer = msgspec.msgpack.encode(JoinRequest("tone", "stranger", 1))
            with strangers([data, control, control], keys) as (on_data, on_control, joining):
                assert on_data.send(name, encode(hello)) is refused
                assert on_control.send(name, encode(Pong(0, 0))) is refused
                assert joining.send("join:stranger", [offer]) is refused
                assert num_ready(engine) == 0
                key_file = str(folder / "worker.key")
                with workers(Worker(control, "tone", "--key-file", key_file)):
                    await engine.wait_ready(TIMEOUT_S)
                    assert await speak(engine, "r") == undisturbed
                    for each in (on_data, on_control, joining):
                        assert each.socket.poll(0) == 0

    asyncio.run(main())


def test_the_same_offer_with_an_allowed_key_is_answered(tmp_path: Path) -> None:
    """So that the silence in the test above is the keys' doing."""
    folder = tmp_path / "keys"

    async def main() -> None:
        async with running(REMOTE_TONE, keyed_config(folder)) as engine:
            control = await join_endpoint(engine)
            offer = msgspec.msgpack.encode(JoinRequest("tone", "acquaintance", 1))
            with strangers([control], read_worker_keys(folder / "worker.key")) as (joining,):
                success = joining.send("join:acquaintance", [offer])
                assert success is zmq.Event.HANDSHAKE_SUCCEEDED
                answers = [msgspec.msgpack.decode(joining.socket.recv()) for _ in range(2)]

            assert [answer["join"] for answer in answers] == ["queued", "accepted"]

    asyncio.run(main())


# --- workers that go, engines that go ------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP])
def test_a_worker_that_goes_in_mid_stream_is_replaced_by_one_that_stood_by(
    number: signal.Signals, undisturbed: bytes
) -> None:
    # One that was stopped is known by its silence alone; a busy machine makes others silent, too.
    config = EngineConfig(heartbeat_interval_s=0.2, heartbeat_timeout_s=10.0)

    async def main() -> bytes:
        async with running(REMOTE_TONE, config) as engine:
            endpoint = await join_endpoint(engine)
            first = Worker(endpoint, "tone")
            with workers(first):
                await engine.wait_ready(TIMEOUT_S)
                second = Worker(endpoint, "tone")
                with workers(second):
                    await asyncio.to_thread(second.read_until, "joined")

                    async def end_first() -> None:
                        os.kill(first.process.pid, number)

                    spoken = await speak(engine, "r", after_first=end_first)
                    await until(lambda: num_restarts(engine) == 1)
                    await asyncio.to_thread(engine.check_integrity)
                    return spoken

    assert asyncio.run(main()) == undisturbed


def test_with_two_replicas_the_other_takes_over(undisturbed: bytes) -> None:
    async def main() -> None:
        async with running(sine_with("remote", (1,), num_replicas=2)) as engine:
            endpoint = await join_endpoint(engine)
            both = [Worker(endpoint, "tone") for _ in range(2)]
            with workers(*both):
                await until(lambda: num_ready(engine) == 2)
                spoken = [speak(engine, f"r{number}") for number in range(6)]

                async def end_one() -> None:
                    os.kill(both[0].process.pid, signal.SIGKILL)

                spoken.append(speak(engine, "last", after_first=end_one))
                assert set(await asyncio.gather(*spoken)) == {undisturbed}
                await until(lambda: num_ready(engine) == 1)

    asyncio.run(main())


def test_a_model_that_cannot_load_is_tried_again_and_then_given_up_by_name() -> None:
    (notes, tone) = REMOTE_TONE.stages
    broken = msgspec.structs.replace(tone, model="worker.models.nothing:load")
    pipeline = msgspec.structs.replace(REMOTE_TONE, stages=(notes, broken))

    async def main() -> None:
        async with running(pipeline, EngineConfig(max_restarts=1)) as engine:
            endpoint = await join_endpoint(engine)
            pair = [Worker(endpoint, "tone") for _ in range(2)]
            with workers(*pair):
                with pytest.raises(UnavailableError, match=r"worker\.models\.nothing"):
                    await engine.wait_ready(TIMEOUT_S)
                for worker in pair:
                    assert (await asyncio.to_thread(worker.wait))[0] == 1

    asyncio.run(main())


def serve_remote(tmp_path: Path) -> tuple[str, dict[str, str]]:
    """A pipeline file with a remote stage, and an environment with a fixed port to join at."""
    text = (PIPELINE_DIR / "sine.yaml").read_text()
    path = tmp_path / "far.yaml"
    path.write_text(text.replace("- name: tone", "- name: tone\n    placement: remote"))
    return str(path), {"VOXLOOM_ENGINE_CONTROL_PORT": str(free_port())}


def test_a_worker_ends_when_its_engine_is_killed(tmp_path: Path) -> None:
    pipeline, environ = serve_remote(tmp_path)
    endpoint = f"tcp://127.0.0.1:{environ['VOXLOOM_ENGINE_CONTROL_PORT']}"
    with serving("--pipeline", pipeline, ready=False, environ=environ) as server:
        server.read_until("workers join at")
        with workers(worker := Worker(endpoint, "tone")):
            server.read_until("voxloom.server: ready")
            server.process.kill()
            status, written = worker.wait()

    assert status == 1
    assert "the engine at tcp://127.0.0.1:" in written
    assert "closed the connection" in written


def test_a_worker_that_rejoins_serves_the_next_engine(tmp_path: Path) -> None:
    pipeline, environ = serve_remote(tmp_path)
    endpoint = f"tcp://127.0.0.1:{environ['VOXLOOM_ENGINE_CONTROL_PORT']}"
    spoken = []
    with workers(Worker(endpoint, "tone", "--rejoin")):
        for _ in range(2):
            with serving("--pipeline", pipeline, environ=environ) as server:
                spoken.append(server.speak("One two three.", seed=1).read())
                server.process.kill()

    assert len(spoken[0]) > 4800
    assert spoken[0] == spoken[1]


def test_an_engine_that_would_let_strangers_in_does_not_start(tmp_path: Path) -> None:
    pipeline, environ = serve_remote(tmp_path)
    environ["VOXLOOM_ENGINE_BIND_HOST"] = "0.0.0.0"
    with serving("--pipeline", pipeline, ready=False, environ=environ) as server:
        assert server.wait() == 1

    assert server.log[-1].startswith("voxloom: error: bind_host '0.0.0.0'")
    assert "curve_key_file and allowed_workers_file" in server.log[-1]
