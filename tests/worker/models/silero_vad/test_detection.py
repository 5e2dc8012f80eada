"""The rule that makes speech and pauses of probabilities."""

from __future__ import annotations

import pytest

from worker.models.silero_vad.detection import Change, Detection, Edge, SpeechDetector

FRAME = 512
# 100 ms of silence end speech: four frames of 32 ms.
QUICK = Detection(silence_duration_ms=100)


def feed(detector: SpeechDetector, *probabilities: float) -> list[Change]:
    return [change for p in probabilities for change in detector.feed(p)]


def test_a_loud_frame_begins_speech() -> None:
    detector = SpeechDetector(QUICK)

    assert feed(detector, 0.1, 0.49) == []
    assert feed(detector, 0.5) == [Change(Edge.STARTED, 2 * FRAME, 3 * FRAME)]


def test_two_loud_frames_begin_speech_at_the_first_of_them_where_two_are_asked_for() -> None:
    detector = SpeechDetector(QUICK, begin_frames=2)

    assert feed(detector, 0.1, 0.9, 0.1, 0.9) == []
    assert feed(detector, 0.5) == [Change(Edge.STARTED, 3 * FRAME, 5 * FRAME)]
    assert detector.is_speech


def test_silence_ends_speech_where_it_began() -> None:
    detector = SpeechDetector(QUICK)
    feed(detector, 0.9, 0.9, 0.9)

    assert feed(detector, 0.1, 0.1, 0.1) == []
    assert feed(detector, 0.1) == [Change(Edge.STOPPED, 3 * FRAME, 7 * FRAME)]
    assert not detector.is_speech


def test_frames_between_the_thresholds_neither_end_speech_nor_break_a_pause() -> None:
    detector = SpeechDetector(QUICK)
    feed(detector, 0.9, 0.9)

    assert feed(detector, *[0.4] * 20) == []
    assert feed(detector, 0.1, 0.4, 0.4, 0.4)[0].edge is Edge.STOPPED


def test_a_short_pause_is_told_once_and_so_is_its_end() -> None:
    detector = SpeechDetector(Detection(silence_duration_ms=500), pause_samples=2 * FRAME)
    feed(detector, 0.9, 0.9)

    assert [c.edge for c in feed(detector, 0.1, 0.1, 0.1)] == [Edge.PAUSED]
    assert [c.edge for c in feed(detector, 0.9, 0.9)] == [Edge.RESUMED]
    assert [c.edge for c in feed(detector, 0.1, 0.1)] == [Edge.PAUSED]


def test_samples_are_counted_from_where_the_stream_begins() -> None:
    detector = SpeechDetector(QUICK, first_sample=16_000)

    assert feed(detector, 0.9, 0.9)[0].sample == 16_000


@pytest.mark.parametrize("duration_ms", [0, 1, 31, 32])
def test_one_silent_frame_is_the_shortest_pause(duration_ms: int) -> None:
    detector = SpeechDetector(Detection(silence_duration_ms=duration_ms))
    feed(detector, 0.9, 0.9)

    assert [c.edge for c in feed(detector, 0.0)] == [Edge.STOPPED]


def test_speech_that_was_stopped_begins_anew_only_with_two_loud_frames() -> None:
    detector = SpeechDetector(QUICK, begin_frames=2)
    feed(detector, 0.9, 0.9)
    detector.stop()

    assert feed(detector, 0.9) == []
    assert [c.edge for c in feed(detector, 0.9)] == [Edge.STARTED]
