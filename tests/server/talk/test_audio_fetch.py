"""Fetching audio: from a real server, over a network whose names and addresses the test makes."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import http.server
import json
import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest
import trustme

from engine.errors import InvalidRequestError
from server.app import create_app
from server.engine_life import ServedEngine
from server.settings import ServerSettings
from server.talk.audio_fetch import AudioFetcher, RealNetwork
from tests.server.asgi_client import post_json
from tests.server.fake_engine import FakeEngine
from tests.server.talk.fake_cascade import FakeCascade, telling

PUBLIC = "93.184.216.34"
AUDIO = bytes(range(256)) * 40


@dataclass
class Net:
    """Names lead to addresses; a public address leads to the test's own server."""

    port: int
    names: dict[str, list[str]] = field(default_factory=dict)
    connected: list[tuple[str, int]] = field(default_factory=list)
    timeouts_s: list[float] = field(default_factory=list)

    def resolve(self, host: str, port: int) -> Sequence[str]:
        if host in self.names:
            return self.names[host]
        # Numbers of any form are the system's to read; that asks nobody.
        return [str(item[4][0]) for item in socket.getaddrinfo(host, port, flags=_NUMERIC)]

    def connect(self, address: str, port: int, timeout_s: float) -> socket.socket:
        self.connected.append((address, port))
        self.timeouts_s.append(timeout_s)
        return socket.create_connection(("127.0.0.1", self.port), timeout_s)


_NUMERIC = socket.AI_NUMERICHOST


class Handler(http.server.BaseHTTPRequestHandler):
    """Does as the path says."""

    def do_GET(self) -> None:
        kind, _, rest = self.path[1:].partition("/")
        self.server.hosts.append(self.headers["Host"])  # type: ignore[attr-defined]
        if kind == "to":
            self.send_response(302)
            self.send_header("Location", base64.urlsafe_b64decode(rest).decode())
            self.end_headers()
            return
        self.send_response(404 if kind == "missing" else 200)
        if kind == "large":
            self.send_header("Content-Length", "100000000")
        elif kind == "short":
            self.send_header("Content-Length", str(len(AUDIO) + 1))
        self.end_headers()
        if kind == "endless":
            with contextlib.suppress(OSError):
                while True:
                    self.wfile.write(AUDIO)
            return
        if kind == "slow":
            with contextlib.suppress(OSError):
                self.wfile.write(b"a")
                self.connection.recv(1)  # until the other side has had enough
            return
        if kind != "large":
            self.wfile.write(AUDIO)

    def log_message(self, *_: Any) -> None:
        return


@contextlib.contextmanager
def web(tls: ssl.SSLContext | None = None) -> Iterator[Any]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.hosts = []  # type: ignore[attr-defined]
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def net() -> Iterator[Net]:
    with web() as server:
        net = Net(server.server_port, {"media.example.com": [PUBLIC]})
        net.hosts = server.hosts  # type: ignore[attr-defined]
        yield net


def fetch(net: Net, url: str, max_bytes: int = 1_000_000, **options: Any) -> bytes:
    fetcher = AudioFetcher(options.pop("hosts", ["*"]), net, **options)
    return asyncio.run(asyncio.wait_for(fetcher.fetch(url, "url", max_bytes), 120))


def to(url: str) -> str:
    return f"http://media.example.com/to/{base64.urlsafe_b64encode(url.encode()).decode()}"


def test_audio_is_fetched_from_the_address_that_was_checked(net: Net) -> None:
    assert fetch(net, "http://media.example.com/a.wav") == AUDIO
    assert fetch(net, to("/a.wav")) == AUDIO
    assert net.connected == [(PUBLIC, 80)] * 3
    assert net.hosts == ["media.example.com"] * 3  # type: ignore[attr-defined]


def test_a_certificate_is_checked_against_the_name() -> None:
    authority = trustme.CA()
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("media.example.com").configure_cert(served)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    with web(served) as server:
        names = {"media.example.com": [PUBLIC], "other.example.com": [PUBLIC]}
        net = Net(server.server_port, names)
        assert fetch(net, "https://media.example.com/a.wav", tls=trusting) == AUDIO
        for url, tls in (
            ("https://other.example.com/a.wav", trusting),
            ("https://media.example.com/a.wav", None),
        ):
            with pytest.raises(InvalidRequestError, match="cannot be read"):
                fetch(net, url, tls=tls)


PRIVATE = [
    "http://inside.example.com/",
    "http://mixed.example.com/",
    "http://127.0.0.1/",
    "http://2130706433/",
    "http://0x7f000001/",
    "http://0177.0.0.1/",
    "http://127.1/",
    "http://0/",
    "http://[::1]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/",
    "http://[fe80::1]/",
    "http://[64:ff9b::a9fe:a9fe]/",
    "http://169.254.169.254/latest/meta-data",
    "http://nowhere.example.com/",
]


@pytest.mark.parametrize("url", PRIVATE)
def test_nothing_private_is_reached_by_itself_or_by_a_redirect(net: Net, url: str) -> None:
    net.names |= {"inside.example.com": ["10.1.2.3"], "mixed.example.com": [PUBLIC, "::1"]}
    for address, num_connections in ((url, 0), (to(url), 1), (to(to(url)), 3)):
        with pytest.raises(InvalidRequestError):
            fetch(net, address)
        assert net.connected == [(PUBLIC, 80)] * num_connections


@pytest.mark.parametrize("lead", [str, to])
def test_a_client_cannot_tell_a_private_address_from_one_that_leads_nowhere(
    net: Net, lead: Callable[[str], str], caplog: pytest.LogCaptureFixture
) -> None:
    net.names |= {"inside.example.com": ["10.1.2.3"], "empty.example.com": []}
    reasons = {
        "inside": r"10\.1\.2\.3, which is not public",
        "empty": "no address",
        "nowhere": "not known",
        # The whole of it may take so long, or the connection.
        "media": r"within 0\.5 s|timed out",
    }
    for name, reason in reasons.items():
        timeout_s = 0.5 if name == "media" else 60.0
        with pytest.raises(InvalidRequestError) as caught:
            fetch(net, lead(f"http://{name}.example.com/slow/"), timeout_s=timeout_s)
        assert caught.value.message == "url: the URL cannot be read"
        told = caplog.messages[-1]
        assert re.search(reason, told)
        assert "slow" not in told


def test_a_redirect_is_checked_as_the_address_was(net: Net) -> None:
    net.names["other.example.com"] = [PUBLIC]
    for url in ("http://other.example.com/a.wav", "file:///etc/passwd", "http://x:y@z/", ""):
        with pytest.raises(InvalidRequestError):
            fetch(net, to(url), hosts=["media.example.com"])
    circle = to("/to/" + base64.urlsafe_b64encode(b"/a.wav").decode())
    assert fetch(net, circle) == AUDIO
    with pytest.raises(InvalidRequestError, match="more than 3"):
        fetch(net, to(to(to(to("/a.wav")))))


@pytest.mark.parametrize(
    ("path", "timeout_s", "words"),
    [
        ("large/", 60.0, "more than 20000 bytes"),
        ("endless/", 60.0, "more than 20000 bytes"),
        ("slow/", 0.5, "cannot be read"),
        ("short/", 60.0, "broke off"),
        ("missing/", 60.0, "status 404"),
    ],
)
def test_bounds_are_kept_and_named(net: Net, path: str, timeout_s: float, words: str) -> None:
    with pytest.raises(InvalidRequestError, match=words) as caught:
        fetch(net, f"http://media.example.com/{path}", 20_000, timeout_s=timeout_s)
    assert caught.value.param == "url"


def test_redirects_share_the_time_of_one_fetch(net: Net) -> None:
    assert fetch(net, to(to("/a.wav")), timeout_s=60.0) == AUDIO
    first, second, third = net.timeouts_s
    assert 60.0 >= first > second > third


def test_a_name_that_is_not_answered_holds_no_thread_of_others() -> None:
    asked, answered = asyncio.Event(), threading.Event()

    async def leave() -> int:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(1))

        class SlowNames(RealNetwork):
            def resolve(self, host: str, port: int) -> Sequence[str]:
                loop.call_soon_threadsafe(asked.set)
                answered.wait()
                return []

        fetcher = AudioFetcher(["*"], SlowNames())
        client = asyncio.create_task(fetcher.fetch("http://a.example.com/", "url", 1))
        await asked.wait()
        client.cancel()
        try:
            return await asyncio.wait_for(asyncio.to_thread(int, "7"), 60)
        finally:
            answered.set()

    assert asyncio.run(leave()) == 7


def test_the_systems_network_finds_and_connects() -> None:
    network = RealNetwork()
    assert network.resolve("0x7f000001", 80) == ["127.0.0.1"]
    with web() as server, network.connect("127.0.0.1", server.server_port, 60) as connection:
        assert connection.getpeername()[1] == server.server_port


def test_a_chat_says_what_it_does_not_fetch() -> None:
    settings = ServerSettings(audio_url_hosts=("media.example.com", "localhost"))
    app = create_app(FakeEngine(), settings, None, ServedEngine(FakeCascade(telling("Hi."))))
    for url, words in (
        ("http://other.example.com/a.wav", "does not fetch from"),
        ("http://localhost/a.wav", "the URL cannot be read"),
        ("ftp://media.example.com/", "http"),
    ):
        part = {"type": "audio_url", "audio_url": {"url": url}}
        body = {"model": "m", "messages": [{"role": "user", "content": [part]}]}
        answer = post_json(app, "/v1/chat/completions", body)
        assert (answer.status, answer.error["param"]) == (
            400,
            "messages[0].content[0].audio_url.url",
        )
        assert words in answer.error["message"], json.dumps(answer.json())
    many = [{"type": "audio_url", "audio_url": {"url": "http://media.example.com/"}}] * 9
    body = {"model": "m", "messages": [{"role": "user", "content": many}]}
    answer = post_json(app, "/v1/chat/completions", body)
    assert answer.error["param"] == "messages[0].content[8].audio_url.url"
