"""How much of an answer had been heard: as its pipeline tells, or as can be reckoned."""

from __future__ import annotations

import pytest

from server.sessions.realtime.spoken_text import SpokenText

TEXT = "One two three four."  # 19 characters


def test_what_the_pipeline_tells_is_believed() -> None:
    spoken = SpokenText(TEXT, 2000.0, [(400.0, 3), (900.0, 7)], is_whole=True)
    assert [spoken.chars_until(ms) for ms in (0, 399, 400, 950, 5000)] == [0, 0, 3, 7, 7]


@pytest.mark.parametrize(
    ("at_ms", "heard"),
    [(0, ""), (650, "One"), (750, "One two"), (1350, "One two three"), (1899, "One two three")],
)
def test_of_a_whole_answer_its_share_of_the_sound_is_heard(at_ms: float, heard: str) -> None:
    spoken = SpokenText(TEXT, 1900.0, is_whole=True)
    assert TEXT[: spoken.chars_until(at_ms)] == heard


def test_all_of_a_whole_answer_is_heard_at_its_end() -> None:
    spoken = SpokenText(TEXT, 1900.0, is_whole=True)
    assert spoken.chars_until(1900.0) == spoken.chars_until(1950.0) == len(TEXT)


def test_of_an_answer_that_was_broken_off_fifteen_characters_a_second_are_heard() -> None:
    spoken = SpokenText(TEXT * 3, 1900.0)
    assert TEXT[: spoken.chars_until(1000.0)] == "One two three"
    assert spoken.chars_until(60_000.0) == len(TEXT * 3)


@pytest.mark.parametrize(
    ("at_ms", "heard"), [(100, ""), (200, "今"), (450, "今天"), (610, "今天天")]
)
def test_a_syllable_of_chinese_takes_as_long_as_three_letters(at_ms: float, heard: str) -> None:
    text = "今天天气很好"
    assert text[: SpokenText(text).chars_until(at_ms)] == heard


def test_an_answer_without_sound_was_not_heard() -> None:
    assert SpokenText(TEXT, is_whole=True).chars_until(0) == 0
    assert SpokenText(TEXT).chars_until(0) == 0
    assert SpokenText("", 100.0, is_whole=True).chars_until(50) == 0
