"""The random part of the noise branch, by seed and frame."""

from __future__ import annotations

import functools
from typing import Final

import numpy as np
import numpy.typing as npt

from worker.models.hibari.graphs import NUM_BINS

FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]

NOISE_TABLE_SIZE: Final = 1 << 20
NOISE_TABLE_SEED: Final = 0x766F78


@functools.cache
def _noise_windows() -> FloatArray:
    """Every window of two times 601 values in a table of standard normal values.

    Drawing from a table is ten times as fast as from a generator. The table (4 MB, the same in
    every process) is long enough that no repetition is heard: a sentence takes windows at random.
    """
    generator = np.random.Generator(np.random.PCG64(NOISE_TABLE_SEED))
    table = generator.standard_normal(NOISE_TABLE_SIZE, dtype=np.float32)
    return np.lib.stride_tricks.sliding_window_view(table, 2 * NUM_BINS)


def load_noise() -> None:
    """Make the table now (20 ms), so that the first sentence does not wait for it."""
    _noise_windows()


def noise(seed: int, num_frames: int) -> FloatArray:
    """The noise of a sentence's frames: [F, 1202], 601 real parts and 601 imaginary ones."""
    return noise_at(noise_offsets(seed, num_frames))


def noise_at(offsets: IntArray) -> FloatArray:
    """The noise of the frames with these offsets: [n, 1202]."""
    return _noise_windows()[offsets]


def noise_offsets(seed: int, num_frames: int) -> IntArray:
    """Where in the table the noise of each frame begins: SplitMix64 of seed and frame index.

    Constants: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
    """
    frames = np.arange(1, num_frames + 1, dtype=np.uint64)
    z = np.uint64(seed % (1 << 64)) + frames * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return (z % np.uint64(NOISE_TABLE_SIZE - 2 * NUM_BINS + 1)).astype(np.int64)
