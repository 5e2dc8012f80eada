"""Where a sentence's tokens are cut into pieces: by their number alone, never by when they came."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator

LOOKAHEAD = 4
"""Tokens that must follow a phoneme before its pitch and energy are settled, at speed 1 and below:
beyond them the voice's own rhythm is assumed. Faster speech takes more tokens for the same time,
which is what the net sees. docs/talker.md has what more and fewer would give."""

_BOUNDARIES = (12, 16, 20, 26, 34, 46, 62, 82, 106, 130, 154, 178, 202, 226)
"""Numbers of tokens at which a piece is handed on: often at first, when a listener waits."""

MAX_PIECES = len(_BOUNDARIES) + 1


def piece_end(num_tokens: int, num_phonemes: int) -> int:
    """Of so many tokens of a sentence, those that are in whole pieces."""
    if num_tokens >= num_phonemes:
        return num_phonemes
    index = bisect_right(_BOUNDARIES, num_tokens)
    return _BOUNDARIES[index - 1] if index else 0


def piece_ends(num_phonemes: int) -> Iterator[int]:
    """Where the pieces of a sentence end."""
    for boundary in _BOUNDARIES:
        if boundary >= num_phonemes:
            break
        yield boundary
    yield num_phonemes


def num_settled(num_tokens: int, num_phonemes: int, speed: float) -> int:
    """Phonemes whose prosody is settled by so many tokens, at a speed."""
    if num_tokens == num_phonemes:
        return num_phonemes
    return max(0, num_tokens - math.ceil(LOOKAHEAD * max(1.0, speed)))
