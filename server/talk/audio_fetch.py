"""Fetches audio from addresses in chat messages, where the settings allow it.

Bounded in time, in size and in redirects, each of which is checked as the first address is. What a
client is told of a failure never holds more than it could find out by itself: what a public server
answered, and else only that nothing could be read. Whether a name is known here, or leads into this
network, is in the server's log.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import logging
import socket
import ssl
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Protocol
from urllib.parse import urljoin, urlsplit

from engine.errors import InvalidRequestError
from server.talk.public_hosts import AllowedHosts, RefusedUrlError, Target, check_public

log = logging.getLogger("voxloom.server")

TIMEOUT_S = 30.0
_MAX_REDIRECTS = 3
_REDIRECTS = (301, 302, 303, 307, 308)
# Each holds a thread, and others wait for their turn. The threads are the fetcher's own: a name
# that is not answered holds one even when its client has left, and everybody needs the common ones.
_MAX_AT_ONCE = 4
_PIECE_BYTES = 64 * 1024


class Network(Protocol):
    """The process's edge. Both may take long, and raise ``OSError``."""

    def resolve(self, host: str, port: int) -> Sequence[str]:
        """The addresses of a host, as numbers."""
        ...

    def connect(self, address: str, port: int, timeout_s: float) -> socket.socket: ...


class RealNetwork:
    """The system's resolver and sockets. Proxies of the environment are not asked."""

    def resolve(self, host: str, port: int) -> Sequence[str]:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return [str(item[4][0]) for item in found]

    def connect(self, address: str, port: int, timeout_s: float) -> socket.socket:
        return socket.create_connection((address, port), timeout_s)


class AudioFetcher:
    """``hosts`` as in ``AllowedHosts``; none: nothing is fetched."""

    def __init__(
        self,
        hosts: Sequence[str],
        network: Network | None = None,
        *,
        timeout_s: float = TIMEOUT_S,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.is_allowed = bool(hosts)
        self._hosts = AllowedHosts(hosts)
        self._network = network or RealNetwork()
        self._timeout_s = timeout_s
        self._tls = tls or ssl.create_default_context()
        self._threads = ThreadPoolExecutor(_MAX_AT_ONCE, thread_name_prefix="fetch")

    async def fetch(self, url: str, param: str, max_bytes: int) -> bytes:
        """What is at ``url``. Raises ``InvalidRequestError`` about ``param``."""
        job = partial(self._fetch, url, max_bytes)
        try:
            async with asyncio.timeout(self._timeout_s * 2):
                return await asyncio.get_running_loop().run_in_executor(self._threads, job)
        except RefusedUrlError as error:
            raise InvalidRequestError(f"{param}: the URL {error}", param=param) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            # A timeout is an OSError as well, and so is an address that is not public.
            log.warning(
                "%s: %s is not fetched: %s", param, _shown(url), error or type(error).__name__
            )
            raise InvalidRequestError(f"{param}: the URL cannot be read", param=param) from None

    def check(self, url: str) -> None:
        """Raises ``RefusedUrlError`` for what can be seen without the network."""
        self._hosts.read(url)

    # --- on a thread -----------------------------------------------------------------------------

    def _fetch(self, url: str, max_bytes: int) -> bytes:
        ends_at = time.monotonic() + self._timeout_s
        for _ in range(_MAX_REDIRECTS + 1):
            target = self._hosts.read(url)
            with self._connect(target, ends_at) as connection:
                found = self._ask_in_time(target, connection, max_bytes, ends_at)
            if isinstance(found, bytes):
                return found
            url = urljoin(url, found)
        raise RefusedUrlError(f"leads on more than {_MAX_REDIRECTS} times")

    def _left_s(self, ends_at: float) -> float:
        """Of the time that a fetch has, redirects included. Raises ``TimeoutError``."""
        left_s = ends_at - time.monotonic()
        if left_s <= 0:
            raise self._too_late()
        return left_s

    def _too_late(self) -> TimeoutError:
        return TimeoutError(f"nothing whole came within {self._timeout_s:g} s")

    def _connect(self, target: Target, ends_at: float) -> socket.socket:
        address = check_public(self._network.resolve(target.host, target.port))
        plain = self._network.connect(address, target.port, self._left_s(ends_at))
        if not target.is_tls:
            return plain
        return self._tls.wrap_socket(
            plain, server_hostname=target.host, do_handshake_on_connect=False
        )

    def _ask_in_time(
        self, target: Target, connection: socket.socket, max_bytes: int, ends_at: float
    ) -> bytes | str:
        """Ends in time, whatever the other side does: it may send a byte now and then for ever."""
        is_late = threading.Event()

        def cut() -> None:
            is_late.set()
            with contextlib.suppress(OSError):  # it has ended by itself
                socket.socket.shutdown(connection, socket.SHUT_RDWR)

        limit = threading.Timer(self._left_s(ends_at), cut)
        limit.start()
        try:
            found = self._ask(target, connection, max_bytes)
        finally:
            limit.cancel()
        if is_late.is_set():
            raise self._too_late()
        return found

    def _ask(self, target: Target, connection: socket.socket, max_bytes: int) -> bytes | str:
        """The body, or where it is said to be."""
        if isinstance(connection, ssl.SSLSocket):
            connection.do_handshake()
        client = http.client.HTTPConnection(target.host, target.port)
        client.sock = connection
        client.putrequest("GET", target.path, skip_host=True, skip_accept_encoding=True)
        for name, value in (
            ("Host", target.authority),
            ("User-Agent", "voxloom"),
            ("Accept", "audio/*, */*;q=0.1"),
            ("Connection", "close"),
        ):
            client.putheader(name, value)
        client.endheaders()
        with client.getresponse() as response:
            if response.status in _REDIRECTS:
                return response.getheader("Location") or ""
            if response.status != 200:
                raise RefusedUrlError(f"was answered with status {response.status}")
            return _read(response, max_bytes)


def _shown(url: str) -> str:
    """A URL for the log: no path, which may hold a secret, no control characters, bounded."""
    parts = urlsplit(url)
    return ascii(f"{parts.scheme}://{parts.netloc}"[:200])


def _read(response: http.client.HTTPResponse, max_bytes: int) -> bytes:
    too_large = RefusedUrlError(f"holds more than {max_bytes} bytes")
    if response.length is not None and response.length > max_bytes:
        raise too_large
    pieces, num_bytes = list[bytes](), 0
    while piece := response.read(_PIECE_BYTES):
        num_bytes += len(piece)
        if num_bytes > max_bytes:
            raise too_large
        pieces.append(piece)
    if response.length:
        raise RefusedUrlError("broke off")
    return b"".join(pieces)
