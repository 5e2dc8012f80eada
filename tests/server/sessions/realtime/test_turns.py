"""Turns in a stream of speech probabilities."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from server.sessions.realtime.config import TurnRules
from server.sessions.realtime.turns import (
    WINDOW_MS,
    Paused,
    Resumed,
    SpeechStarted,
    SpeechStopped,
    TurnDetector,
    TurnEvent,
)

RULES = TurnRules(0.5, 96, 320, None, True, True)


def run(values: list[float], rules: TurnRules = RULES) -> list[tuple[int, TurnEvent]]:
    """The events, each with the number of windows after which it came."""
    detector = TurnDetector()
    found = [(count, detector.feed(value, rules)) for count, value in enumerate(values, 1)]
    return [(count, event) for count, event in found if event is not None]


def test_a_turn_begins_with_its_padding_and_ends_after_the_silence() -> None:
    events = run([0.0] * 5 + [0.9] * 4 + [0.0] * 10)
    assert events == [
        (7, SpeechStarted(5 * WINDOW_MS - 96)),
        (12, Paused(9 * WINDOW_MS)),
        (19, SpeechStopped(19 * WINDOW_MS)),
    ]


def test_a_click_is_no_turn() -> None:
    assert run([0.0, 0.9, 0.0, 0.9, 0.0]) == []


def test_a_pause_that_does_not_last_ends_nothing() -> None:
    events = run([0.9] * 3 + [0.0] * 5 + [0.9] * 2 + [0.0] * 10)
    kinds = [type(event) for _, event in events]
    assert kinds == [SpeechStarted, Paused, Resumed, Paused, SpeechStopped]


def test_soft_speech_keeps_a_turn_but_begins_none() -> None:
    assert run([0.4] * 20) == []
    assert [type(event) for _, event in run([0.9] * 2 + [0.4] * 30)] == [SpeechStarted]


def test_padding_never_reaches_into_the_turn_before() -> None:
    rules = replace(RULES, prefix_padding_ms=5000, silence_duration_ms=64)
    events = run([0.9] * 2 + [0.0] * 2 + [0.9] * 2, rules)
    assert [event for _, event in events] == [
        SpeechStarted(0),
        SpeechStopped(4 * WINDOW_MS),
        SpeechStarted(4 * WINDOW_MS),
    ]


@given(st.lists(st.floats(0, 1), max_size=300))
def test_events_alternate_whatever_is_heard(values: list[float]) -> None:
    follows: dict[type[object] | None, set[type[object]]] = {
        None: {SpeechStarted},
        SpeechStarted: {Paused, SpeechStopped},
        Paused: {Resumed, SpeechStopped},
        Resumed: {Paused, SpeechStopped},
        SpeechStopped: {SpeechStarted},
    }
    before: type[object] | None = None
    floor_ms = 0
    for count, event in run(values):
        assert type(event) in follows[before]
        before = type(event)
        if isinstance(event, SpeechStarted):
            assert floor_ms <= event.start_ms < count * WINDOW_MS
        if isinstance(event, SpeechStopped):
            floor_ms = event.end_ms
