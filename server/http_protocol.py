"""uvicorn's HTTP protocol, with a bound on the head of a request and our envelope on its 400."""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from engine.errors import InvalidRequestError
from server.errors import envelope_bytes

# llhttp itself takes a head of any size. Common servers stop at 8 to 64 KiB; a WebSocket's key and
# trace headers stay far below.
MAX_HEAD_BYTES = 64 * 1024


class BoundedHttpProtocol(HttpToolsProtocol):
    """Refuses heads over ``MAX_HEAD_BYTES``, and whatever is no HTTP, with our envelope."""

    _num_head_bytes = 0

    def on_message_begin(self) -> None:
        self._num_head_bytes = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def send_400_response(self, msg: str) -> None:
        if self._num_head_bytes > MAX_HEAD_BYTES:
            msg = f"the request's line and headers may hold at most {MAX_HEAD_BYTES} bytes"
        body = envelope_bytes(InvalidRequestError(msg, code="invalid_http"))
        head = (
            b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n"
            b"connection: close\r\ncontent-length: %d\r\n\r\n" % len(body)
        )
        self.transport.write(head + body)
        self.transport.close()

    def _count(self, num_bytes: int) -> None:
        """An exception in a parser's callback ends in ``send_400_response``."""
        self._num_head_bytes += num_bytes
        if self._num_head_bytes > MAX_HEAD_BYTES:
            raise ValueError("head too large")
