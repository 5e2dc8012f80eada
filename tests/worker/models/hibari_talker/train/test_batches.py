"""Answers that share their phonemes see what they would see alone."""

from __future__ import annotations

import numpy as np
import pytest

from worker.models.hibari_talker.tokens import BUCKETS, build_prompt
from worker.models.hibari_talker.train.batches import NO_TARGET, NUM_ANSWERS, collate, draw, plan
from worker.models.hibari_talker.train.draws import answers
from worker.models.hibari_talker.train.teacher import Lesson, Lessons


def lesson(size: int) -> Lesson:
    pitches = np.full(size, 12.0, np.float32)
    return Lesson(np.arange(size, dtype=np.int16), np.full(size, 2.0, np.float32), pitches)


SIZES = [5, 20, 60, 128, 129, 200, 240, 31, 7, 90]
LESSONS = Lessons.join([lesson(size) for size in SIZES])


def test_a_plan_takes_every_sentence_once_in_batches_of_one_bucket() -> None:
    batches = plan(LESSONS, 2500, np.random.default_rng(0))
    assert sorted(np.concatenate(batches)) == list(range(len(SIZES)))
    for batch in batches:
        sizes = [SIZES[index] for index in batch]
        assert len({size <= BUCKETS[0][0] for size in sizes}) == 1
        tokens = draw(LESSONS, batch, np.random.default_rng(1)).tokens
        assert len(batch) == 1 or tokens.size <= 2500 + 1


def test_an_answer_has_the_tokens_and_positions_that_it_would_have_alone() -> None:
    chosen = [lesson(9), lesson(20)]
    drawn = [answers(each, np.random.default_rng(3)) for each in chosen]
    batch = collate(chosen, drawn)
    positions, visible = batch.positions(), batch.visible()
    for row, (each, ways) in enumerate(zip(chosen, drawn, strict=True)):
        for number, way in enumerate(ways):
            prompt = build_prompt([int(i) for i in each.ids], way.style)
            alone = [*prompt, *way.tokens[:-1]]
            start = batch.num_prefix + number * batch.num_tail
            own = [*range(batch.num_prefix), *range(start, start + batch.num_tail)]
            own = own[: len(alone)]
            assert batch.tokens[row, own].tolist() == alone
            assert positions[own].tolist() == list(range(len(alone)))
            assert np.flatnonzero(visible[own[-1]]).tolist() == own
            assert batch.targets[row, number, : each.ids.size].tolist() == way.tokens.tolist()
            assert (batch.targets[row, number, each.ids.size :] == NO_TARGET).all()


@pytest.mark.parametrize("index", [3, 4])
def test_the_same_generator_draws_the_same_batch(index: int) -> None:
    one, other = (draw(LESSONS, np.array([index]), np.random.default_rng(8)) for _ in range(2))
    assert np.array_equal(one.tokens, other.tokens)
    assert one.targets.shape == (1, NUM_ANSWERS, SIZES[index])
