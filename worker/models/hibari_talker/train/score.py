"""How near the talker comes to its teacher, token by token, the teacher's tokens before each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from worker.models.hibari_talker.tokens import FIRST_PROSODY, FIRST_STYLE, NUM_PITCHES
from worker.models.hibari_talker.train.batches import collate
from worker.models.hibari_talker.train.draws import neutral
from worker.models.hibari_talker.train.net import Net
from worker.models.hibari_talker.train.teacher import Lesson


@dataclass(frozen=True, slots=True)
class Score:
    """Shares of phonemes, and a distance; of the likeliest token each time."""

    duration_exact: float
    duration_near: float
    """At most one unit of 25 ms off."""
    voicing_right: float
    pitch_distance_st: float
    """Mean, where both are voiced."""

    def __str__(self) -> str:
        return (
            f"durations exact {self.duration_exact:.3f}, within one {self.duration_near:.3f}; "
            f"voicing {self.voicing_right:.3f}; pitch {self.pitch_distance_st:.2f} st off"
        )


def score_neutral(net: Net, lessons: Sequence[Lesson]) -> Score:
    """Compare the likeliest tokens with the teacher's on sentences in its own way."""
    guessed, right = [], []
    for lesson in lessons:
        answer = neutral(lesson)
        with torch.no_grad():
            logits = net.logits(collate([lesson], [[answer]]))[0, 0]
        best = logits[:, FIRST_PROSODY:FIRST_STYLE].float().argmax(-1)
        guessed.append(best.numpy() + FIRST_PROSODY)
        right.append(answer.tokens)
    return compare(np.concatenate(guessed), np.concatenate(right))


def compare(guessed: np.ndarray[Any, Any], right: np.ndarray[Any, Any]) -> Score:
    """Score of tokens [n] against the teacher's [n]."""
    guess_duration, guess_pitch = np.divmod(guessed - FIRST_PROSODY, NUM_PITCHES)
    duration, pitch = np.divmod(right - FIRST_PROSODY, NUM_PITCHES)
    off = np.abs(guess_duration - duration)
    both = (guess_pitch > 0) & (pitch > 0)
    distance = np.abs(guess_pitch - pitch)[both]
    return Score(
        float((off == 0).mean()),
        float((off <= 1).mean()),
        float(((guess_pitch > 0) == (pitch > 0)).mean()),
        float(distance.mean()) if distance.size else 0.0,
    )
