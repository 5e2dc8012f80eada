"""Training examples: a teacher's sentence, bent by hidden factors, under labels that hint at them.

Each axis of style has a hidden factor x: 0 is the teacher's own way (half of the time), else x is
uniform in -1..1. The label is drawn from x, softly: p(label | x) is a softmax of squared distances,
so it grows smoothly with x and guidance finds more to amplify at every scale. (Classes with hard
borders make p(x | label) / p(x) constant inside a class, where guidance does nothing.)

Examples without style, from which the unconditional rows of guidance are predicted, take a new x
every few phonemes: else the style could be read off the answer so far, which guidance has bent.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from worker.models.hibari_talker.tokens import (
    AXES,
    FIRST_PROSODY,
    LEVELS,
    MAX_DURATION,
    NULL_STYLE,
    NUM_PITCHES,
    style_token,
)
from worker.models.hibari_talker.train.teacher import Lesson

FloatArray = npt.NDArray[np.float64]

SLOWEST, FASTEST = 1.55, 0.62
"""Factor on durations at x = -1 and x = 1 of the rate."""
LOWEST_ST, HIGHEST_ST = -5.0, 6.0
"""Semitones at x = -1 and x = 1 of the pitch."""
LIVELINESS_REACH = 0.8
"""Pitch moves 1 + 0.8 x times as far from its mean."""

CENTRES = np.array([-0.9, -0.35, 0.35, 0.9])
"""Where the labels -2, -1, 1 and 2 are likeliest."""
SPREAD = 0.45
"""Variance of the distance to a centre; more is softer."""
_LABELS = tuple(level for level in LEVELS if level)

NEUTRAL_SHARE = 0.5
MIN_DRIFT, MAX_DRIFT = 2, 6
"""Phonemes between two changes of x in an example without style."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One way to speak a sentence: the style's tokens [3] and the answer's tokens [L]."""

    style: list[int]
    tokens: npt.NDArray[np.int64]


def neutral(lesson: Lesson) -> Answer:
    """The teacher's own way."""
    zero = np.zeros((len(AXES), 1))
    return Answer([style_token(axis, 0) for axis in range(len(AXES))], bend(lesson, zero))


def styled(lesson: Lesson, rng: np.random.Generator) -> Answer:
    """With hidden factors, and labels drawn from them."""
    factors = _draw_factors(rng, 1)
    labels = [_draw_label(rng, x) for x in factors[:, 0]]
    style = [style_token(axis, label) for axis, label in enumerate(labels)]
    return Answer(style, bend(lesson, factors))


def unconditional(lesson: Lesson, rng: np.random.Generator) -> Answer:
    """Without style, the factors changing all the time."""
    num_phonemes = lesson.ids.size
    runs = rng.integers(MIN_DRIFT, MAX_DRIFT + 1, size=num_phonemes)
    which = np.repeat(np.arange(num_phonemes), runs)[:num_phonemes]
    factors = _draw_factors(rng, num_phonemes)[:, which]
    return Answer(list(NULL_STYLE), bend(lesson, factors))


def answers(lesson: Lesson, rng: np.random.Generator) -> list[Answer]:
    """Three ways to speak a sentence: neutral, styled, and styled or unconditional."""
    last = unconditional(lesson, rng) if rng.random() < 0.5 else styled(lesson, rng)
    return [neutral(lesson), styled(lesson, rng), last]


def label_odds(x: FloatArray) -> FloatArray:
    """[n] factors other than 0 -> [n, 4] probabilities of the labels -2, -1, 1 and 2."""
    odds = np.exp(-((x[:, None] - CENTRES) ** 2) / (2 * SPREAD))
    return np.asarray(odds / odds.sum(axis=1, keepdims=True))


def bend(lesson: Lesson, factors: FloatArray) -> npt.NDArray[np.int64]:
    """The tokens [L] of a sentence under factors [3, 1 or L] of rate, pitch and liveliness."""
    rate, height, life = factors
    stretch = np.where(rate < 0, SLOWEST ** np.abs(rate), FASTEST ** np.abs(rate))
    durations = np.clip(np.floor(lesson.durations * stretch + 0.5), 1, MAX_DURATION)
    voiced = np.isfinite(lesson.pitches)
    mean = float(lesson.pitches[voiced].mean()) if voiced.any() else 0.0
    shift = np.where(height < 0, -LOWEST_ST * height, HIGHEST_ST * height)
    bent = mean + (1 + LIVELINESS_REACH * life) * (lesson.pitches - mean) + shift
    pitches = np.where(voiced, np.clip(np.rint(np.nan_to_num(bent)), 1, NUM_PITCHES - 1), 0)
    tokens = FIRST_PROSODY + (durations - 1) * NUM_PITCHES + pitches
    return np.asarray(tokens, np.int64)


def _draw_factors(rng: np.random.Generator, count: int) -> FloatArray:
    factors = rng.uniform(-1, 1, (len(AXES), count))
    return np.where(rng.random(factors.shape) < NEUTRAL_SHARE, 0.0, factors)


def _draw_label(rng: np.random.Generator, x: float) -> int:
    if x == 0:
        return 0
    return int(rng.choice(_LABELS, p=label_odds(np.array([x]))[0]))
