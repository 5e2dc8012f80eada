"""Quantises a decoder's products: constant activation scales, weights equalised to suit them.

An activation's channels differ in reach by a factor of ten, so that one scale for all of them, wide
enough for the widest, is coarse for most. Each channel is therefore divided by a factor that grows
with its reach, and the rows of the weight are multiplied by it, as in SmoothQuant (Xiao and others,
2022). The division costs nothing after a layer norm (it is folded into its weight) and one pass
after a GELU. Weights get a scale per column, which is finer than the voice file's single one, so
that rounding them again loses little.

On the waveform this takes the distance to the float decoder from 28 to 32 dB; the voice file's own
scales, taken anew from each sentence, have about 30.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from worker.models.hibari.graphs import Linear

FloatArray = npt.NDArray[np.float32]

Reach = dict[str, FloatArray]
"""Largest magnitude of each channel of an activation, by the tensor's name in the voice file."""

EXPONENT = 0.75
"""How much of the difference between channels is moved into the weights (measured best)."""

LEAST_REACH = 0.02
"""Channels that reach less than this part of the widest are treated as if they reached it."""

LEAST_GELU = -0.17
"""Minimum of the GELU, at x = -0.75."""

MAX_LEVEL = 255
MAX_WEIGHT = 127


@dataclass(frozen=True, slots=True)
class Quantiser:
    """uint8 form of an activation x: ``clip(round(x / divisors / scale) + zero, 0, 255)``."""

    divisors: FloatArray
    """[channels]"""
    scale: float
    zero: int


@dataclass(frozen=True, slots=True)
class Int8Weight:
    """int8 form of a weight whose rows were multiplied by a quantiser's divisors."""

    values: npt.NDArray[np.int8]
    """[in, out]"""
    scales: FloatArray
    """[out]"""


def norm_quantiser(reach: FloatArray) -> Quantiser:
    """Quantiser for the output of a layer norm: as far below zero as above."""
    divisors = _divisors(reach)
    most = float(np.max(reach / divisors))
    return _quantiser(divisors, -most, most)


def gelu_quantiser(reach: FloatArray) -> Quantiser:
    """Quantiser for the output of a GELU."""
    divisors = _divisors(reach)
    least = float(LEAST_GELU / np.min(divisors))
    return _quantiser(divisors, least, float(np.max(reach / divisors)))


def equalised_weight(linear: Linear, gains: FloatArray, quantiser: Quantiser) -> Int8Weight:
    """The weight that goes with a quantiser's activations, columns multiplied by ``gains``."""
    weight = linear.weight * quantiser.divisors[:, None] * gains
    largest = np.max(np.abs(weight), axis=0)
    scales = np.where(largest > 0, largest, 1) / np.float32(MAX_WEIGHT)
    return Int8Weight(np.rint(weight / scales).astype(np.int8), scales.astype(np.float32))


def _divisors(reach: FloatArray) -> FloatArray:
    """Factors with a geometric mean of 1."""
    powers = EXPONENT * np.log(np.maximum(reach, LEAST_REACH * reach.max()))
    return np.asarray(np.exp(powers - powers.mean()), np.float32)


def _quantiser(divisors: FloatArray, low: float, high: float) -> Quantiser:
    scale = float(np.float32((high - low) / MAX_LEVEL))
    return Quantiser(divisors, scale, round(-low / scale))
