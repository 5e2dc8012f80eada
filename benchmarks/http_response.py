"""One HTTP/1.1 response, read from the pieces in which it comes. No I/O.

As little as a load generator needs, so that it costs the server's machine next to nothing.
"""

from __future__ import annotations

from enum import Enum, auto


class ResponseError(ValueError):
    """The bytes are no response that this reader knows."""


class _Expect(Enum):
    HEAD = auto()
    SIZED = auto()  # a body with a Content-Length
    CHUNK_SIZE = auto()
    CHUNK_DATA = auto()  # with its line end
    LAST_LINE = auto()
    NOTHING = auto()


class ResponseReader:
    """Feed it what comes; ``is_done`` says that the response is whole."""

    def __init__(self) -> None:
        self.status: int | None = None
        self.headers: dict[str, str] = {}
        self._buffer = bytearray()
        self._expect = _Expect.HEAD
        self._num_left = 0

    @property
    def is_done(self) -> bool:
        return self._expect is _Expect.NOTHING

    def feed(self, data: bytes) -> bytes:
        """The bytes of the body that ``data`` holds. Raises ``ResponseError``."""
        self._buffer += data
        body = bytearray()
        while self._step(body):
            pass
        return bytes(body)

    def _step(self, body: bytearray) -> bool:
        """Take one part of the response; False when more bytes are needed."""
        match self._expect:
            case _Expect.HEAD:
                return self._read_head()
            case _Expect.CHUNK_SIZE:
                return self._read_chunk_size()
            case _Expect.LAST_LINE:
                return self._read_last_line()
            case _Expect.SIZED | _Expect.CHUNK_DATA:
                return self._read_data(body)
        return False

    def _line(self, end: bytes = b"\r\n") -> bytes | None:
        cut = self._buffer.find(end)
        if cut < 0:
            return None
        line = bytes(self._buffer[:cut])
        del self._buffer[: cut + len(end)]
        return line

    def _read_head(self) -> bool:
        head = self._line(b"\r\n\r\n")
        if head is None:
            return False
        first, *lines = head.decode("latin-1").split("\r\n")
        parts = first.split(" ", 2)
        if len(parts) < 2 or not parts[0].startswith("HTTP/1.1") or not parts[1].isdigit():
            raise ResponseError(f"no status line: {first[:80]!r}")
        self.status = int(parts[1])
        for line in lines:
            name, _, value = line.partition(":")
            self.headers[name.strip().lower()] = value.strip()
        self._expect_body()
        return True

    def _expect_body(self) -> None:
        if self.headers.get("transfer-encoding") == "chunked":
            self._expect = _Expect.CHUNK_SIZE
        elif "content-length" in self.headers:
            self._num_left = int(self.headers["content-length"])
            self._expect = _Expect.SIZED if self._num_left else _Expect.NOTHING
        else:
            raise ResponseError("a response with neither a length nor chunks")

    def _read_chunk_size(self) -> bool:
        line = self._line()
        if line is None:
            return False
        try:
            size = int(line.partition(b";")[0], 16)
        except ValueError as error:
            raise ResponseError(f"no chunk size: {line[:80]!r}") from error
        self._num_left = size + 2
        self._expect = _Expect.CHUNK_DATA if size else _Expect.LAST_LINE
        return True

    def _read_data(self, body: bytearray) -> bool:
        """Give what is there of the body at once: its first byte is what is being timed."""
        ending = 2 if self._expect is _Expect.CHUNK_DATA else 0
        taken = min(len(self._buffer), self._num_left)
        body += self._buffer[: min(taken, max(self._num_left - ending, 0))]
        del self._buffer[:taken]
        self._num_left -= taken
        if self._num_left:
            return False
        self._expect = _Expect.CHUNK_SIZE if ending else _Expect.NOTHING
        return True

    def _read_last_line(self) -> bool:
        if self._line() is None:
            return False
        self._expect = _Expect.NOTHING
        return True
