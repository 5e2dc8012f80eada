"""Seeds that follow from a request's own."""

from __future__ import annotations

# SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
_GOLDEN = 0x9E3779B97F4A7C15
_MASK = 2**64 - 1


def nth_seed(seed: int, number: int) -> int:
    """A function of both alone, from 0 to 2**63 - 1; neighbouring numbers give unrelated seeds."""
    z = (seed + (number + 1) * _GOLDEN) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return (z ^ (z >> 31)) >> 1
