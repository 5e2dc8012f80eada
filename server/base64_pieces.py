"""Base64 of any length, decoded piece by piece.

Python decodes a text in one go and lets no other thread run meanwhile: 15 MiB of audio would hold
up the event loop, even from a thread of its own, for longer than a chunk of sound may wait.
"""

from __future__ import annotations

import binascii

# A multiple of four characters; decoding so many takes a millisecond or two.
_PIECE_CHARS = 1024 * 1024


def decode_base64(text: str | bytes) -> bytes:
    """The bytes of ``text`` (RFC 4648, section 4: padded, nothing else in it).

    Raises ``ValueError``.
    """
    pieces = []
    for first in range(0, len(text), _PIECE_CHARS):
        piece = text[first : first + _PIECE_CHARS]
        pieces.append(binascii.a2b_base64(piece, strict_mode=True))
        is_last = first + len(piece) == len(text)
        if not is_last and len(pieces[-1]) * 4 != len(piece) * 3:
            raise ValueError("base64 ends before its end")
    return b"".join(pieces)
