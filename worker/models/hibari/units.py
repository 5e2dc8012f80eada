"""What the prosody stage hands to code2wav: one unit per phoneme chunk."""

from __future__ import annotations

from typing import Any

from engine.messages import Payload
from worker.models.hibari.prosody_net import ProsodyFrames
from worker.models.hibari.text.phonemes import PhonemeChunk

# splitmix64 (Steele, Lea, Flood 2014): neighbouring units of a request get unrelated seeds.
_GOLDEN = 0x9E3779B97F4A7C15
_MASK = 2**64 - 1


def unit_seed(request_seed: int, unit: int) -> int:
    """The noise seed of a unit: a function of the request's seed and the unit's number alone."""
    z = (request_seed + (unit + 1) * _GOLDEN) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return (z ^ (z >> 31)) >> 1


def make_unit(
    chunk: PhonemeChunk,
    frames: ProsodyFrames,
    *,
    seed: int,
    shape: dict[str, float],
    model_path: str,
) -> Payload:
    """The payload of one unit.

    ``ids`` int64 [L], ``durations`` int32 [L] in 25 ms, ``f0`` float32 [F] in Hz, ``energy``
    float32 [F], F = 2 * sum(durations) frames of 12.5 ms.
    """
    unit: dict[str, Any] = {
        "ids": chunk.ids,
        "durations": frames.durations,
        "f0": frames.f0,
        "energy": frames.energy,
        "seed": seed,
        "shape": shape,
        "model_path": model_path,
    }
    return {"unit": unit}
