"""Base64, piece by piece."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.base64_pieces import _PIECE_CHARS, decode_base64

LONG = bytes(range(256)) * 9000  # more than two pieces


@given(st.binary(max_size=200))
def test_short_texts_are_decoded(data: bytes) -> None:
    assert decode_base64(base64.b64encode(data)) == data
    assert decode_base64(base64.b64encode(data).decode()) == data


@pytest.mark.parametrize("num_cut", [0, 1, 2])
def test_long_texts_are_decoded_whole(num_cut: int) -> None:
    data = LONG[: len(LONG) - num_cut]
    text = base64.b64encode(data).decode()
    assert len(text) > 2 * _PIECE_CHARS
    assert decode_base64(text) == data


PIECE = "A" * _PIECE_CHARS


@pytest.mark.parametrize(
    "text",
    [
        *("A", "AAA", "AA=", "A===", "=", "AA==AA==", "AAAA\n", "AA-_", "ÄÄÄÄ", " AAAA"),
        PIECE[:-2] + "==" + "AAAA",
        PIECE[:-1] + "=" + "AAAA",
        PIECE + "A",
        PIECE + "====",
        PIECE[:-1] + "!" + "AAAA",
    ],
)
def test_what_is_no_base64_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode_base64(text)
