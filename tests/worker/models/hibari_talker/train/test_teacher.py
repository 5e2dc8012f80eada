"""Lessons say what the prosody net does, finer than it says itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.worker.models.hibari import bundled
from worker.models.hibari_talker.phoneme_pitch import phoneme_pitches
from worker.models.hibari_talker.train.teacher import Lessons, Teacher

pytestmark = pytest.mark.model


def test_rounded_durations_are_the_nets_own() -> None:
    teacher = Teacher()
    for text in (bundled.SHORT, bundled.LONG, bundled.QUESTION):
        lesson, frames = teacher.speak(bundled.ids(text)), bundled.frames(text)
        assert np.array_equal(np.maximum(np.rint(lesson.durations), 1), frames.durations)
        assert np.array_equal(lesson.ids, bundled.ids(text))


def test_pitch_is_the_median_of_voiced_frames() -> None:
    f0 = np.array([0, 0, 140, 140, 280, 280, 90, 0], np.float32)
    pitches = phoneme_pitches(np.array([1, 1, 1, 1], np.int32), f0)
    assert np.isnan(pitches[0])
    assert pitches[1:3].tolist() == [12.0, 24.0]
    assert pitches[3] == pytest.approx(12 * np.log2(90 / 70))


def test_lessons_come_back_from_a_file(tmp_path: Path) -> None:
    teacher = Teacher()
    said = [teacher.speak(bundled.ids(text)) for text in (bundled.SHORT, bundled.QUESTION)]
    Lessons.join(said).save(tmp_path / "lessons.npz")
    loaded = Lessons.load(tmp_path / "lessons.npz")
    assert loaded.lengths().tolist() == [lesson.ids.size for lesson in said]
    for index, lesson in enumerate(said):
        assert np.array_equal(loaded[index].durations, lesson.durations)
        assert np.array_equal(loaded[index].pitches, lesson.pitches, equal_nan=True)
