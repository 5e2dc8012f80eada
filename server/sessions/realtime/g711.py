"""G.711: eight-bit samples at 8 kHz, as telephones send them (ITU-T G.711)."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

_MULAW_BIAS = 132


def decode_g711(data: bytes, kind: str) -> bytes:
    """s16le samples of ``audio/pcmu`` or ``audio/pcma``; ``audio/pcm`` passes through."""
    if kind == "audio/pcm":
        return data
    return _decoding_table(kind)[np.frombuffer(data, np.uint8)].tobytes()


def encode_g711(pcm: bytes, kind: str) -> bytes:
    """The reverse: each sample becomes the code whose value is nearest to it."""
    if kind == "audio/pcm":
        return pcm
    samples = np.frombuffer(pcm, "<i2").astype(np.int32) + 32768
    return _encoding_table(kind)[samples].tobytes()


@lru_cache(maxsize=2)
def _decoding_table(kind: str) -> NDArray[np.int16]:
    """The value of each code. [256], int16."""
    codes = np.arange(256)
    values = _mulaw_values(codes) if kind == "audio/pcmu" else _alaw_values(codes)
    return values.astype("<i2")


def _mulaw_values(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    inverted = ~codes & 0xFF
    exponent, mantissa = (inverted >> 4) & 7, inverted & 15
    magnitude = ((2 * mantissa + 33) << (exponent + 2)) - _MULAW_BIAS
    return np.where(inverted & 0x80, -magnitude, magnitude)


def _alaw_values(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    toggled = codes ^ 0x55
    exponent, mantissa = (toggled >> 4) & 7, toggled & 15
    linear = (2 * mantissa + 1) << 3
    magnitude = np.where(exponent == 0, linear, (linear + 256) << np.maximum(exponent - 1, 0))
    return np.where(toggled & 0x80, magnitude, -magnitude)


@lru_cache(maxsize=2)
def _encoding_table(kind: str) -> NDArray[np.uint8]:
    """The nearest code of each sample value. [65536], uint8, at index value + 32768."""
    values = _decoding_table(kind).astype(np.int64)
    order = np.argsort(values, kind="stable")
    ranked = values[order]
    middles = (ranked[1:] + ranked[:-1]) / 2
    samples = np.arange(-32768, 32768)
    return order[np.searchsorted(middles, samples)].astype(np.uint8)
