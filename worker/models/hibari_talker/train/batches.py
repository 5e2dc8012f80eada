"""Batches: sentences of one bucket and like length, several answers behind each prompt's phonemes.

The style stands behind the phonemes, so several answers can share them in training: each sees the
phonemes and itself, and has the positions that it would have alone. That halves the cost.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from worker.models.hibari_talker.tokens import AXES, BUCKETS, FIRST_PHONEME, PAD, bucket_of
from worker.models.hibari_talker.train.draws import Answer, answers
from worker.models.hibari_talker.train.teacher import Lesson, Lessons

IntArray = npt.NDArray[np.int64]

NUM_ANSWERS = 3
NO_TARGET = -100
"""Where nothing is to be predicted; torch's cross entropy leaves it out."""
_WINDOW = 1024
"""Sentences are sorted by length within so many, so that little is padded."""


@dataclass(frozen=True, slots=True)
class Batch:
    """B prompts with K answers of up to L tokens each, as rows of P + K * (3 + L) tokens."""

    tokens: IntArray
    """[B, T]"""
    targets: IntArray
    """[B, K, L], padded with ``NO_TARGET``."""
    num_prefix: int
    """P: bucket and phoneme slots."""
    num_tail: int
    """3 + L: what one answer adds."""

    def positions(self) -> IntArray:
        """[T] where each token would stand if its answer were alone."""
        tail = self.num_prefix + np.arange(self.num_tail)
        num_answers = self.targets.shape[1]
        return np.concatenate([np.arange(self.num_prefix), *[tail] * num_answers])

    def visible(self) -> npt.NDArray[np.bool_]:
        """[T, T] which token (column) each token (row) may look at."""
        prefix, tail = self.num_prefix, self.num_tail
        visible = np.tril(np.ones((self.tokens.shape[1],) * 2, np.bool_))
        for start in range(prefix + tail, visible.shape[0], tail):
            visible[start:, prefix:start] = False
        return visible


def plan(lessons: Lessons, num_tokens: int, rng: np.random.Generator) -> list[IntArray]:
    """One pass over all sentences: which of them share a batch of about ``num_tokens`` tokens."""
    lengths = lessons.lengths()
    order = rng.permutation(len(lessons))
    batches = []
    for start in range(0, order.size, _WINDOW):
        window = order[start : start + _WINDOW]
        window = window[np.argsort(lengths[window], kind="stable")]
        batches += list(_split(window, lengths, num_tokens))
    return [batches[index] for index in rng.permutation(len(batches))]


def _split(window: IntArray, lengths: IntArray, num_tokens: int) -> Iterator[IntArray]:
    for slots, _ in BUCKETS:
        low = max((each for each, _ in BUCKETS if each < slots), default=0)
        here = window[(lengths[window] > low) & (lengths[window] <= slots)]
        while here.size:
            # Sorted by length: the last of those taken is the longest.
            row = slots + NUM_ANSWERS * (len(AXES) + lengths[here])
            count = max(1, int(np.sum(row * np.arange(1, here.size + 1) <= num_tokens)))
            yield here[:count]
            here = here[count:]


def draw(lessons: Lessons, indices: IntArray, rng: np.random.Generator) -> Batch:
    """The batch of these sentences, with answers drawn anew."""
    chosen = [lessons[int(index)] for index in indices]
    return collate(chosen, [answers(lesson, rng) for lesson in chosen])


def collate(chosen: list[Lesson], drawn: list[list[Answer]]) -> Batch:
    """Sentences of one bucket, each with equally many answers, as a batch."""
    longest = max(lesson.ids.size for lesson in chosen)
    slots, bucket = bucket_of(longest)
    num_prefix, num_tail = 1 + slots, len(AXES) + longest
    num_answers = len(drawn[0])
    tokens = np.full((len(chosen), num_prefix + num_answers * num_tail), PAD, np.int64)
    targets = np.full((len(chosen), num_answers, longest), NO_TARGET, np.int64)
    tokens[:, 0] = bucket
    for row, (lesson, ways) in enumerate(zip(chosen, drawn, strict=True)):
        size = lesson.ids.size
        tokens[row, 1 : 1 + size] = FIRST_PHONEME + lesson.ids
        for number, answer in enumerate(ways):
            targets[row, number, :size] = answer.tokens
            tail = [*answer.style, bucket, *answer.tokens[:-1]]
            start = num_prefix + number * num_tail
            tokens[row, start : start + len(tail)] = tail
    return Batch(tokens, targets, num_prefix, num_tail)
