"""Prompts of equal length in a bucket, and tokens that say a duration and a pitch."""

from __future__ import annotations

import pytest

from worker.models.hibari.text.phonemes import _VOCAB, MAX_IDS
from worker.models.hibari_talker.tokens import (
    AXES,
    BUCKETS,
    FIRST_PHONEME,
    FIRST_PROSODY,
    FIRST_STYLE,
    LEVELS,
    MAX_DURATION,
    MAX_LENGTH,
    NULL_STYLE,
    NUM_PITCHES,
    VOCABULARY,
    Style,
    bucket_of,
    build_prompt,
    is_prosody,
    prosody_token,
    split_token,
    style_token,
)


def test_every_prosody_token_says_one_duration_and_pitch() -> None:
    said = {
        prosody_token(duration, pitch): (duration, pitch)
        for duration in range(1, MAX_DURATION + 1)
        for pitch in range(NUM_PITCHES)
    }
    assert sorted(said) == list(range(FIRST_PROSODY, FIRST_STYLE))
    assert {token: split_token(token) for token in said} == said


@pytest.mark.parametrize("token", [0, FIRST_PROSODY - 1, FIRST_STYLE, VOCABULARY - 1])
def test_other_tokens_say_nothing(token: int) -> None:
    assert not is_prosody(token)
    with pytest.raises(ValueError, match=f"token {token} is no prosody token"):
        split_token(token)


def test_the_kinds_of_token_do_not_overlap() -> None:
    buckets = {token for _, token in BUCKETS}
    phonemes = {FIRST_PHONEME + number for number in _VOCAB.values()} | {FIRST_PHONEME}
    styles = {style_token(axis, level) for axis in range(len(AXES)) for level in LEVELS}
    assert max(buckets) < min(phonemes)
    assert max(phonemes) < FIRST_PROSODY
    assert len(styles | set(NULL_STYLE)) == len(AXES) * (len(LEVELS) + 1)
    assert min(NULL_STYLE) == FIRST_STYLE
    assert max(styles) < VOCABULARY


def test_prompts_of_a_bucket_are_equally_long_with_and_without_style() -> None:
    for slots, _ in BUCKETS:
        lengths = {
            len(build_prompt(range(count), style))
            for count in (slots - 10, slots)
            for style in (Style(1, -2, 0).tokens, NULL_STYLE)
        }
        assert lengths == {slots + 5}
        assert max(lengths) + slots <= MAX_LENGTH


def test_an_answer_stands_at_a_fixed_distance_behind_its_phoneme() -> None:
    prompt = build_prompt([0, 43, 50, 0], Style().tokens)
    assert prompt[1:5] == [FIRST_PHONEME + each for each in (0, 43, 50, 0)]
    assert prompt[0] == prompt[-1] == BUCKETS[0][1]
    assert prompt[-4:-1] == Style().tokens


def test_the_longest_chunk_has_a_bucket_and_nothing_longer() -> None:
    assert bucket_of(MAX_IDS) == BUCKETS[-1]
    assert bucket_of(BUCKETS[0][0]) == BUCKETS[0]
    assert bucket_of(BUCKETS[0][0] + 1) == BUCKETS[1]
    for count in (0, MAX_IDS + 1):
        with pytest.raises(ValueError, match="1 to 240 phonemes"):
            bucket_of(count)


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("level", [-3, 3, 0.5])
def test_a_level_that_there_is_not_is_refused_by_the_axis(axis: str, level: int) -> None:
    with pytest.raises(ValueError, match=f"{axis} must be from -2 to 2"):
        Style(**{axis: level})
