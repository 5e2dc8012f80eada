"""G.711: eight bits a sample, the coding of telephone networks."""

from enum import StrEnum
from functools import cache

import numpy as np
from numpy.typing import NDArray

from server.audio.resampler import Samples

# ITU-T G.711: eight segments, each of twice the step of the one before, of sixteen steps each.
_NUM_STEP_BITS = 4
# mu-law counts from an offset of 33 in 14 bits, so that the segments' ends are powers of two; A-law
# has 13 bits and no offset.
_ULAW_SHIFT, _ULAW_BIAS, _ULAW_MAX = 2, 33, 8191
_ALAW_SHIFT = 3


class G711Law(StrEnum):
    """The two laws: mu-law in North America and Japan, A-law elsewhere."""

    ULAW = "ulaw"
    ALAW = "alaw"


class G711Writer:
    """Mono int16 as one byte a sample, without a header."""

    def __init__(self, law: G711Law) -> None:
        self._codes = _ulaw_codes() if law is G711Law.ULAW else _alaw_codes()

    def write(self, samples: Samples) -> bytes:
        return self._codes[samples.view(np.uint16)].tobytes()

    def finish(self) -> bytes:
        return b""

    def release(self) -> None:
        """Nothing is held."""


def decode_g711(data: bytes, law: G711Law) -> bytes:
    """The samples of these codes: s16le, mono."""
    return _sample_values(law)[np.frombuffer(data, np.uint8)].tobytes()


@cache
def _sample_values(law: G711Law) -> NDArray[np.int16]:
    """The middle of each code's step, int16 [256]."""
    codes = np.arange(256)
    values = _ulaw_values(codes) if law is G711Law.ULAW else _alaw_values(codes)
    return values.astype("<i2")


def _ulaw_values(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    inverted = ~codes & 0xFF
    segment, step = (inverted >> _NUM_STEP_BITS) & 7, inverted & 0xF
    level = ((2 * step + _ULAW_BIAS) << segment) - _ULAW_BIAS
    magnitude = level << _ULAW_SHIFT
    return np.where(inverted & 0x80, -magnitude, magnitude)


def _alaw_values(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    toggled = codes ^ 0x55
    segment, step = (toggled >> _NUM_STEP_BITS) & 7, toggled & 0xF
    linear = (2 * step + 1) << _ALAW_SHIFT
    magnitude = np.where(segment == 0, linear, (linear + 256) << np.maximum(segment - 1, 0))
    return np.where(toggled & 0x80, magnitude, -magnitude)


@cache
def _ulaw_codes() -> NDArray[np.uint8]:
    """The code of each 16-bit sample, uint8 [65536], indexed by its bits."""
    samples = _all_samples()
    level = np.minimum((np.abs(samples) >> _ULAW_SHIFT), _ULAW_MAX - _ULAW_BIAS) + _ULAW_BIAS
    segment = _num_bits(level) - 6
    step = (level >> (segment + 1)) & 0xF
    codes: NDArray[np.uint8] = ((samples < 0) << 7 | segment << _NUM_STEP_BITS | step).astype(
        np.uint8
    )
    return ~codes


@cache
def _alaw_codes() -> NDArray[np.uint8]:
    """As ``_ulaw_codes``; every other bit is inverted, as the recommendation has it."""
    samples = _all_samples()
    level = np.where(samples < 0, ~samples, samples) >> _ALAW_SHIFT
    segment = np.maximum(_num_bits(level) - 5, 0)
    step = (level >> np.maximum(segment, 1)) & 0xF
    codes: NDArray[np.uint8] = (
        ((samples >= 0) << 7 | segment << _NUM_STEP_BITS | step) ^ 0x55
    ).astype(np.uint8)
    return codes


def _all_samples() -> NDArray[np.int64]:
    return np.arange(65536, dtype=np.uint16).view(np.int16).astype(np.int64)


def _num_bits(levels: NDArray[np.int64]) -> NDArray[np.int64]:
    """The place of the highest bit that is set, counted from 1; 0 for 0."""
    _, exponents = np.frexp(levels.astype(np.float64))
    return exponents.astype(np.int64)
