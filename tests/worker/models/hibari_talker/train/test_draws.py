"""Hidden factors bend a sentence, and labels hint at them more and more."""

from __future__ import annotations

import numpy as np
import pytest

from worker.models.hibari_talker.tokens import (
    FIRST_PROSODY,
    NULL_STYLE,
    NUM_PITCHES,
    Style,
    split_token,
)
from worker.models.hibari_talker.train.draws import (
    answers,
    bend,
    label_odds,
    neutral,
    unconditional,
)
from worker.models.hibari_talker.train.teacher import Lesson

COUNT = 60
LESSON = Lesson(
    np.arange(COUNT, dtype=np.int16),
    np.linspace(1, 8, COUNT).astype(np.float32),
    np.where(np.arange(COUNT) % 5 == 0, np.nan, 15 + np.arange(COUNT) % 7).astype(np.float32),
)


def parts(tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    pairs = np.array([split_token(int(token)) for token in tokens])
    return pairs[:, 0], pairs[:, 1]


def factors(rate: float = 0, pitch: float = 0, liveliness: float = 0) -> np.ndarray:
    return np.array([[rate], [pitch], [liveliness]])


def test_neutral_is_the_teachers_way() -> None:
    answer = neutral(LESSON)
    durations, pitches = parts(answer.tokens)
    assert answer.style == Style().tokens
    assert np.array_equal(durations, np.floor(LESSON.durations + 0.5))
    voiced = np.isfinite(LESSON.pitches)
    assert np.array_equal(pitches[voiced], LESSON.pitches[voiced])
    assert not pitches[~voiced].any()


def test_each_factor_moves_its_own_axis() -> None:
    durations, pitches = parts(neutral(LESSON).tokens)
    voiced = pitches > 0
    for rate, bound in ((-1, 1.5), (1, 0.65)):
        bent = parts(bend(LESSON, factors(rate=rate)))
        assert bent[0].sum() / durations.sum() == pytest.approx(bound, abs=0.06)
        assert np.array_equal(bent[1], pitches)
    assert (parts(bend(LESSON, factors(pitch=1)))[1] - pitches)[voiced].tolist() == [
        6
    ] * voiced.sum()
    flat = parts(bend(LESSON, factors(liveliness=-1)))[1][voiced]
    assert flat.std() < 0.4 * pitches[voiced].std()


def test_tokens_stay_in_their_range() -> None:
    extreme = Lesson(LESSON.ids, LESSON.durations * 10, LESSON.pitches * 3)
    for pitch in (-1, 1):
        tokens = bend(extreme, factors(-1, pitch, 1))
        assert tokens.min() >= FIRST_PROSODY
        assert tokens.max() < FIRST_PROSODY + 24 * NUM_PITCHES


def test_a_label_is_likelier_the_more_there_is_of_its_axis() -> None:
    odds = label_odds(np.linspace(-1, 1, 21))
    assert odds.sum(axis=1) == pytest.approx(1)
    assert (np.diff(odds[:, 0]) < 0).all()
    assert (np.diff(odds[:, 3]) > 0).all()


def test_the_same_generator_draws_the_same_answers() -> None:
    one, other = (answers(LESSON, np.random.default_rng(4)) for _ in range(2))
    assert [a.style for a in one] == [a.style for a in other]
    assert all(np.array_equal(a.tokens, b.tokens) for a, b in zip(one, other, strict=True))


def test_without_a_style_the_factors_change_all_the_time() -> None:
    ratios = []
    for seed in range(20):
        answer = unconditional(LESSON, np.random.default_rng(seed))
        assert answer.style == list(NULL_STYLE)
        ratios.append(parts(answer.tokens)[0] / LESSON.durations)
    spread_within = np.mean([ratio.std() for ratio in ratios])
    spread_between = np.std([ratio.mean() for ratio in ratios])
    assert spread_within > 2 * spread_between
