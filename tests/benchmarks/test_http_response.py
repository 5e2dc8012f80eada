from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.http_response import ResponseError, ResponseReader

parts = st.lists(st.binary(min_size=1, max_size=40), max_size=8)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: audio/pcm\r\n"


def chunked(pieces: list[bytes]) -> bytes:
    body = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    return HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + body + b"0\r\n\r\n"


def sized(body: bytes) -> bytes:
    return HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body


def feed_in_pieces(reader: ResponseReader, data: bytes, cuts: list[int]) -> bytes:
    ends = [*sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    body, start = b"", 0
    for end in ends:
        body += reader.feed(data[start:end])
        start = end
    return body


@given(parts, st.lists(st.integers(0, 1000), max_size=20))
def test_a_chunked_body_is_read_whole_however_it_is_cut(
    pieces: list[bytes], cuts: list[int]
) -> None:
    reader = ResponseReader()
    assert feed_in_pieces(reader, chunked(pieces), cuts) == b"".join(pieces)
    assert reader.is_done
    assert reader.status == 200
    assert reader.headers["content-type"] == "audio/pcm"


@given(st.binary(max_size=100), st.lists(st.integers(0, 1000), max_size=20))
def test_a_sized_body_is_read_whole_however_it_is_cut(body: bytes, cuts: list[int]) -> None:
    reader = ResponseReader()
    assert feed_in_pieces(reader, sized(body), cuts) == body
    assert reader.is_done


@given(parts.filter(bool), st.integers(1, 1000))
def test_a_response_that_is_cut_short_is_never_done(pieces: list[bytes], num_less: int) -> None:
    data = chunked(pieces)
    reader = ResponseReader()
    reader.feed(data[: -(num_less % len(data)) or -1])
    assert not reader.is_done


def test_the_first_bytes_of_a_chunk_are_given_before_the_rest_has_come() -> None:
    reader = ResponseReader()
    reader.feed(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    assert reader.feed(b"a\r\n01") == b"01"


@pytest.mark.parametrize(
    "data",
    [
        b"hello\r\n\r\n",
        b"HTTP/1.1 yes\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
def test_what_is_no_known_response_is_an_error(data: bytes) -> None:
    with pytest.raises(ResponseError):
        ResponseReader().feed(data)
