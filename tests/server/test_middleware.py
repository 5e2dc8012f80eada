"""What every request passes on its way in."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Message, Receive, Scope, Send

from server.app import create_app
from server.auth import ApiKeys
from server.metrics import ServerMetrics
from server.middleware import ApiKeyGate, BodyLimit, RequestScope, StreamBrokenError, canonical_path
from server.settings import ServerSettings
from tests.server.asgi_client import Exchange, exchange, post_json, request
from tests.server.fake_engine import FakeEngine

ORIGIN = {"origin": "https://app.example"}


@pytest.mark.parametrize(
    ("path", "canonical"),
    [
        ("/", "/"),
        ("/health", "/health"),
        ("/health/", "/health"),
        ("/v1/health", "/health"),
        ("/v1/ready/", "/ready"),
        ("/v1/metrics", "/metrics"),
        ("/audio/speech", "/v1/audio/speech"),
        ("/audio/speech/", "/v1/audio/speech"),
        ("/v1/audio/speech/", "/v1/audio/speech"),
        ("/models", "/v1/models"),
        ("/models/a/b", "/v1/models/a/b"),
        ("/realtime", "/v1/realtime"),
        ("/audios", "/audios"),
        ("//", "/"),
        ("/v1/audio/speech//", "/v1/audio/speech/"),
    ],
)
def test_each_path_has_one_name(path: str, canonical: str) -> None:
    assert canonical_path(path) == canonical


@pytest.mark.parametrize("path", ["/v1/audio/speech", "/audio/speech", "/audio/speech/"])
def test_speech_is_served_under_each_of_its_names(path: str) -> None:
    assert post_json(create_app(FakeEngine()), path, {"input": "Hi"}).status == 200


@pytest.mark.parametrize("path", ["/health", "/v1/models", "/"])
def test_head_is_answered_like_get(path: str) -> None:
    assert request(create_app(FakeEngine()), "HEAD", path).status == 200


class TestCors:
    def test_any_origin_is_welcome_by_default_without_credentials(self) -> None:
        headers = request(create_app(FakeEngine()), "GET", "/health", headers=ORIGIN).headers

        assert headers["access-control-allow-origin"] == "*"
        assert "x-request-id" in headers["access-control-expose-headers"]
        assert "x-voxloom-warnings" in headers["access-control-expose-headers"]
        assert "access-control-allow-credentials" not in headers

    @pytest.mark.parametrize(("method", "path"), [("GET", "/none"), ("GET", "/v1/audio/speech")])
    def test_errors_carry_the_headers_too(self, method: str, path: str) -> None:
        answer = request(create_app(FakeEngine()), method, path, headers=ORIGIN)

        assert answer.headers["access-control-allow-origin"] == "*"

    def test_a_missing_key_carries_them_too(self) -> None:
        app = create_app(FakeEngine(), ServerSettings(api_keys=("k",)))

        answer = request(app, "GET", "/v1/models", headers=ORIGIN)

        assert answer.status == 401
        assert answer.headers["access-control-allow-origin"] == "*"

    def test_a_preflight_is_answered_without_a_key(self) -> None:
        app = create_app(FakeEngine(), ServerSettings(api_keys=("k",)))
        asked = {"access-control-request-headers": "authorization,x-custom"}

        answer = request(app, "OPTIONS", "/v1/audio/speech", headers=ORIGIN | asked)

        assert answer.status == 204
        assert answer.headers["access-control-allow-headers"] == "authorization,x-custom"
        assert "POST" in answer.headers["access-control-allow-methods"]

    def test_only_listed_origins_are_allowed_if_there_is_a_list(self) -> None:
        app = create_app(FakeEngine(), ServerSettings(cors_origins=("https://app.example",)))

        listed = request(app, "GET", "/health", headers=ORIGIN)
        other = request(app, "GET", "/health", headers={"origin": "https://evil.example"})

        assert listed.headers["access-control-allow-origin"] == "https://app.example"
        assert listed.headers["vary"] == "origin"
        assert "access-control-allow-origin" not in other.headers


class TestRequestScope:
    def test_the_request_id_comes_back(self) -> None:
        app = create_app(FakeEngine())

        assert request(app, "GET", "/none", headers={"x-request-id": "r-1"}).headers[
            "x-request-id"
        ] == ("r-1")
        assert request(app, "GET", "/none").headers["x-request-id"].startswith("req_")
        assert int(request(app, "GET", "/none").headers["openai-processing-ms"]) >= 0

    def test_a_bug_is_a_500_that_says_nothing_and_is_logged(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def broken(scope: Scope, receive: Receive, send: Send) -> None:
            raise ValueError("secret detail")

        app = RequestScope(broken, ServerMetrics(), log_requests=True)
        answer = request(app, "GET", "/", headers={"x-request-id": "r-2"})

        assert answer.status == 500
        assert "secret" not in answer.body.decode()
        assert "r-2" in answer.error["message"]
        assert any("r-2" in record.getMessage() and record.exc_info for record in caplog.records)

    @pytest.mark.parametrize("error", [StreamBrokenError(), ValueError("x")])
    def test_after_the_first_byte_nothing_more_is_sent(self, error: Exception) -> None:
        async def breaks(scope: Scope, receive: Receive, send: Send) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"half", "more_body": True})
            raise error

        answer = request(RequestScope(breaks, ServerMetrics(), log_requests=False), "GET", "/")

        assert answer.body == b"half"
        assert not answer.is_whole

    def test_a_path_cannot_break_the_log(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO, "voxloom.access")

        request(create_app(FakeEngine()), "GET", "/a%0d%0aFAKE%1b[31m" + "x" * 500)

        line = next(r.getMessage() for r in caplog.records if r.name == "voxloom.access")
        assert line.isprintable()
        assert len(line) < 400

    @pytest.mark.parametrize(("path", "level"), [("/health", "DEBUG"), ("/v1/models", "INFO")])
    def test_probes_do_not_fill_the_log(
        self, caplog: pytest.LogCaptureFixture, path: str, level: str
    ) -> None:
        caplog.set_level(logging.DEBUG, "voxloom.access")

        request(create_app(FakeEngine()), "GET", path)

        assert [r.levelname for r in caplog.records if r.name == "voxloom.access"] == [level]


async def refuse_socket(extensions: dict[str, Any]) -> list[Message]:
    """What a WebSocket without a key is told."""

    async def never(scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError("the gate let it through")

    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    gate = ApiKeyGate(never, ApiKeys(("k",)))
    app = RequestScope(gate, ServerMetrics(), log_requests=True)
    scope = {"type": "websocket", "path": "/v1/realtime", "headers": [], "extensions": extensions}
    await app(scope, Exchange(b"", 1, lambda _: None).receive, send)
    return sent


def test_a_websocket_without_a_key_is_refused_with_the_envelope_where_that_is_possible() -> None:
    start, body = asyncio.run(refuse_socket({"websocket.http.response": {}}))

    assert start["status"] == 401
    assert b"missing_api_key" in body["body"]


def test_and_closed_with_a_reason_where_it_is_not() -> None:
    (close,) = asyncio.run(refuse_socket({}))

    assert (close["type"], close["code"]) == ("websocket.close", 1008)
    assert "API key" in close["reason"]


class TestBodyLimit:
    @staticmethod
    async def read_all(scope: Scope, receive: Receive, send: Send) -> None:
        num_bytes = 0
        while True:
            message = await receive()
            num_bytes += len(message["body"])
            if not message["more_body"]:
                break
        await PlainTextResponse(str(num_bytes))(scope, receive, send)

    @pytest.mark.parametrize(("size", "status"), [(0, 200), (10, 200), (11, 413), (5000, 413)])
    @pytest.mark.parametrize("chunk_size", [3, 10_000])
    @pytest.mark.parametrize("declared", [True, False])
    def test_counts_what_comes_and_what_is_announced(
        self, size: int, status: int, chunk_size: int, declared: bool
    ) -> None:
        app = RequestScope(BodyLimit(self.read_all, 10), ServerMetrics(), log_requests=False)
        headers = {"content-length": str(size)} if declared else {}

        answer = request(app, "POST", "/", body=b"x" * size, headers=headers, chunk_size=chunk_size)

        assert answer.status == status

    def test_an_endless_body_is_not_read_to_its_end(self) -> None:
        class Endless(Exchange):
            num_read = 0

            async def receive(self) -> Message:
                self.num_read += 1
                return {"type": "http.request", "body": b"x" * 1_000_000, "more_body": True}

        app = RequestScope(BodyLimit(self.read_all, 10), ServerMetrics(), log_requests=False)
        flight = Endless(b"", 1, lambda _: None)
        scope = {"type": "http", "method": "POST", "path": "/", "headers": []}

        asyncio.run(app(scope, flight.receive, flight.send))

        assert flight.answer.status == 413
        assert flight.num_read < 12

    @pytest.mark.parametrize("length", ["-1", "abc", "1" * 400, "²"])
    def test_a_nonsense_length_is_no_length(self, length: str) -> None:
        app = RequestScope(BodyLimit(self.read_all, 10), ServerMetrics(), log_requests=False)

        answer = asyncio.run(exchange(app, "POST", "/", b"x", {"content-length": length}))

        assert answer.status == 200
