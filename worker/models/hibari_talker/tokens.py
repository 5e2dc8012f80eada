"""The talker's vocabulary, its prompts, and what its tokens mean. No model, nothing heavy.

A prompt is ``[bucket] phonemes, padded to the bucket's slots, [rate] [pitch] [liveliness]
[bucket]``; the model answers with one prosody token per phoneme. A bucket has a fixed number of
slots, so that output i stands at a fixed distance behind phoneme i: attention learns that quickly.
All prompts of a bucket have equal lengths, those without style too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

PAD = 0
BUCKETS = ((128, 1), (240, 2))
"""Number of slots and token of each bucket. Twenty words have about 115 phonemes; nothing is longer
than 240 (``worker.models.hibari.text.phonemes.MAX_IDS``)."""

FIRST_PHONEME = 16
"""Token of phoneme id 0. hibari's ids end at 177."""

FIRST_PROSODY = 200
NUM_PITCHES = 32
MAX_DURATION = 24
"""A prosody token is ``200 + (duration - 1) * 32 + pitch``: 1 to 24 units of 25 ms (the voice's own
grid; 18 is the longest of 1.5 million phonemes at its own pace), and a pitch."""

LOWEST_HZ = 70.0
"""Pitch 0 is unvoiced; pitch p is p semitones above this, 74 to 420 Hz."""

UNIT_S = 0.025

FIRST_STYLE = FIRST_PROSODY + MAX_DURATION * NUM_PITCHES
AXES = ("rate", "pitch", "liveliness")
LEVELS = (-2, -1, 0, 1, 2)
"""Levels of an axis: plainly or slightly less, the voice's own, slightly or plainly more."""

VOCABULARY = 1024
MAX_LENGTH = 2 * BUCKETS[-1][0] + 8
"""More than the longest prompt and its answer."""


@dataclass(frozen=True, slots=True)
class Style:
    """How a sentence is to be spoken, in ``LEVELS``; more of an axis is faster, higher, livelier.

    Raises:
        ValueError: a level is not among ``LEVELS``; the message names its axis.
    """

    rate: int = 0
    pitch: int = 0
    liveliness: int = 0

    def __post_init__(self) -> None:
        for axis in AXES:
            if getattr(self, axis) not in LEVELS:
                raise ValueError(f"{axis} must be from -2 to 2, not {getattr(self, axis)!r}")

    @property
    def tokens(self) -> list[int]:
        levels = (self.rate, self.pitch, self.liveliness)
        return [style_token(axis, level) for axis, level in enumerate(levels)]


NULL_STYLE = [FIRST_STYLE + 6 * axis for axis in range(len(AXES))]
"""Tokens of an unknown style, for the unconditional rows of classifier-free guidance."""


def style_token(axis: int, level: int) -> int:
    """The token of a level (-2 to 2) of axis 0, 1 or 2."""
    return FIRST_STYLE + 6 * axis + 1 + LEVELS.index(level)


def bucket_of(num_phonemes: int) -> tuple[int, int]:
    """Slots and token of the smallest bucket for so many phonemes.

    Raises:
        ValueError: there are none or too many.
    """
    for slots, token in BUCKETS:
        if 0 < num_phonemes <= slots:
            return slots, token
    raise ValueError(f"a prompt takes 1 to {BUCKETS[-1][0]} phonemes, not {num_phonemes}")


def build_prompt(ids: Sequence[int], style_tokens: Sequence[int]) -> list[int]:
    """Tokens of the prompt for phoneme ids with both pads (1 to 240 of them)."""
    slots, bucket = bucket_of(len(ids))
    phonemes = [FIRST_PHONEME + int(each) for each in ids]
    return [bucket, *phonemes, *[PAD] * (slots - len(ids)), *style_tokens, bucket]


def prosody_token(duration: int, pitch: int) -> int:
    """The token of 1 to 24 units of 25 ms and pitch 0 to 31."""
    return FIRST_PROSODY + (duration - 1) * NUM_PITCHES + pitch


def is_prosody(token: int) -> bool:
    """Whether a token is one that the model may answer with."""
    return FIRST_PROSODY <= token < FIRST_STYLE


def split_token(token: int) -> tuple[int, int]:
    """Duration in units of 25 ms and pitch (0 is unvoiced) of a prosody token.

    Raises:
        ValueError: it is no prosody token.
    """
    if not is_prosody(token):
        raise ValueError(
            f"token {token} is no prosody token; those are {FIRST_PROSODY} to {FIRST_STYLE - 1}"
        )
    duration, pitch = divmod(token - FIRST_PROSODY, NUM_PITCHES)
    return duration + 1, pitch
