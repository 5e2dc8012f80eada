"""The application under a real uvicorn, over real sockets."""

from __future__ import annotations

import asyncio
import http.client
import json
import logging.config
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import pytest

from engine.errors import StageFailedError, UnavailableError
from server.app import create_app
from server.http_protocol import MAX_HEAD_BYTES
from server.log import log_config
from server.run import SpeechServer, listen, uvicorn_config
from server.settings import ServerSettings, Settings
from tests.server.fake_engine import FakeEngine, Script

TEXT = "Hello there, how are you today?"
LIMIT_S = 120.0


class Running:
    """A server on a free port of its own thread."""

    def __init__(self, engine: FakeEngine) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._connections: list[http.client.HTTPConnection] = []
        settings = Settings(ServerSettings(port=self.port))
        app = create_app(engine, settings.server)
        config = uvicorn_config(app, settings)
        config.log_config = None
        self.server = SpeechServer(config, app.state.life)
        self.thread = threading.Thread(target=self.server.run, args=([self._listener],))

    def connect(self) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT_S)
        self._connections.append(connection)
        return connection

    def close(self) -> None:
        for connection in self._connections:
            connection.close()
        self._listener.close()

    def speak(self) -> http.client.HTTPResponse:
        connection = self.connect()
        body = json.dumps({"input": TEXT, "response_format": "pcm"})
        connection.request("POST", "/v1/audio/speech", body, {"content-type": "application/json"})
        return connection.getresponse()

    def raw(self, data: bytes) -> tuple[bytes, bytes]:
        """The head and body of the answer to raw bytes; the server closes the connection."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=LIMIT_S) as connection:
            connection.sendall(data)
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
        head, _, body = answer.partition(b"\r\n\r\n")
        return head, body


@contextmanager
def running(engine: FakeEngine) -> Iterator[Running]:
    server = Running(engine)
    server.thread.start()
    try:
        yield server
    finally:
        server.server.should_exit = True
        server.thread.join(LIMIT_S)
        server.close()
        assert not server.thread.is_alive()


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running(FakeEngine()) as server:
        yield server


def test_pcm_arrives_whole_and_chunked(server: Running) -> None:
    answer = server.speak()

    assert answer.getheader("transfer-encoding") == "chunked"
    assert len(answer.read()) == len(TEXT) * 480 * 2


def test_a_connection_is_kept_for_the_next_request(server: Running) -> None:
    connection = server.connect()
    for path in ("/health", "/none", "/v1/models"):
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
        assert not answer.will_close


def test_a_head_has_the_length_but_no_body(server: Running) -> None:
    connection = server.connect()
    connection.request("HEAD", "/v1/models")
    answer = connection.getresponse()

    assert int(answer.getheader("content-length", "0")) > 0
    assert answer.read() == b""


@pytest.mark.parametrize("chunked", [True, False])
def test_a_client_that_sends_too_much_still_reads_its_413(server: Running, chunked: bool) -> None:
    connection = server.connect()
    body = json.dumps({"input": "7" * 1_500_000}).encode()
    connection.request(
        "POST",
        "/v1/audio/speech",
        iter([body]) if chunked else body,
        {"content-type": "application/json"},
        encode_chunked=chunked,
    )
    answer = connection.getresponse()

    assert answer.status == 413
    assert json.loads(answer.read())["error"]["code"] == "payload_too_large"


@pytest.mark.parametrize(
    "data",
    [
        b"hello\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET  HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nbad header\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: x\r\n\r\n",
        b"GET /" + b"a" * MAX_HEAD_BYTES + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nx: " + b"a" * MAX_HEAD_BYTES + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n"
        + (b"x: " + b"a" * 1000 + b"\r\n") * (MAX_HEAD_BYTES // 990)
        + b"\r\n",
    ],
)
def test_what_is_no_http_gets_the_envelope_too(server: Running, data: bytes) -> None:
    head, body = server.raw(data)

    assert head.startswith(b"HTTP/1.1 400 ")
    assert json.loads(body)["error"]["code"] == "invalid_http"


def test_a_large_head_within_the_bound_passes(server: Running) -> None:
    value = b"a" * (MAX_HEAD_BYTES - 100)

    head, _ = server.raw(b"GET /health HTTP/1.1\r\nconnection: close\r\nx: " + value + b"\r\n\r\n")

    assert head.startswith(b"HTTP/1.1 200 ")


def test_a_failure_in_mid_stream_is_seen_by_the_client() -> None:
    engine = FakeEngine(Script(fail_at_chunk=5, error=StageFailedError("lost")))
    with running(engine) as server:
        answer = server.speak()

        assert answer.status == 200
        with pytest.raises(http.client.IncompleteRead) as caught:
            answer.read()
    assert caught.value.partial


def test_ending_the_server_lets_a_running_answer_end() -> None:
    is_speaking, may_go_on = threading.Event(), threading.Event()

    async def wait(number: int) -> None:
        if number == 3:
            is_speaking.set()
            await asyncio.to_thread(may_go_on.wait)

    engine = FakeEngine(Script(before_chunk=wait))
    with running(engine) as server:
        answer = server.speak()
        assert is_speaking.wait(LIMIT_S)
        server.server.should_exit = True
        assert engine.draining.wait(LIMIT_S)
        may_go_on.set()

        assert len(answer.read()) == len(TEXT) * 480 * 2
    assert server.server.failure is None


def test_an_engine_that_cannot_start_ends_the_server() -> None:
    class Unstartable(FakeEngine):
        async def wait_ready(self, timeout_s: float | None = None) -> None:
            raise UnavailableError("stage wave cannot start: no such model")

    server = Running(Unstartable())
    server.thread.start()
    server.thread.join(LIMIT_S)
    server.close()

    assert not server.thread.is_alive()
    assert server.server.failure == "stage wave cannot start: no such model"


@pytest.mark.parametrize("level", ["debug", "info", "warning", "error"])
def test_every_log_level_is_a_valid_configuration(level: str) -> None:
    logging.config.dictConfig(log_config(level))

    assert logging.getLevelName(logging.getLogger("voxloom").level) == level.upper()


def test_uvicorn_waits_longer_than_the_engine_drains() -> None:
    settings = Settings()
    engine = msgspec.structs.replace(settings.engine, drain_timeout_s=7.0)
    config = uvicorn_config(create_app(FakeEngine()), Settings(settings.server, engine))

    assert config.timeout_graceful_shutdown is not None
    assert config.timeout_graceful_shutdown > 7


def test_a_socket_whose_client_lags_behind_has_a_minute_to_answer_a_ping() -> None:
    config = uvicorn_config(create_app(FakeEngine()), Settings())

    assert config.ws_ping_timeout == 60.0


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0", "::", "::1"])
def test_any_usual_host_can_be_listened_on(host: str) -> None:
    with listen(host, 0) as listener:
        assert listener.getsockname()[1] > 0


def test_an_address_that_cannot_be_listened_on_is_named() -> None:
    with (
        listen("127.0.0.1", 0) as taken,
        pytest.raises(OSError, match=r"127\.0\.0\.1:\d+: Address already in use"),
    ):
        listen("127.0.0.1", taken.getsockname()[1])
