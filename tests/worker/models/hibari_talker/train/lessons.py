"""A few hundred phonemes of the teacher's, for tests of training."""

from __future__ import annotations

import functools

from worker.models.hibari_talker.train.teacher import Lessons, teach

_SUBJECTS = ("The old sailor", "A quiet teacher", "My youngest cousin", "Nobody here", "The rain")
_REST = (
    "came home late that evening.",
    "could not find the way to the harbour!",
    "has seen this river before, I think.",
    "will sing, won't they?",
)
TEXTS = [f"{subject} {rest}" for subject in _SUBJECTS for rest in _REST]


@functools.cache
def lessons() -> Lessons:
    return teach(TEXTS)
