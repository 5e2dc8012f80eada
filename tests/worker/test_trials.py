"""Suspects wait for their trial, one at a time, with all that comes for them."""

from __future__ import annotations

from engine.messages import SamplingParams, StagePause, StageRequest, StageUpdate
from worker.trials import RequestMessage, Trials


def suspect(request_id: str, group_id: str | None = None, skip: int = 5) -> StageRequest:
    return StageRequest(
        request_id,
        {},
        SamplingParams(),
        0,
        group_id=group_id,
        skip_position=skip,
        suspect=True,
    )


def test_what_comes_for_a_suspect_waits_with_it_in_order() -> None:
    trials = Trials()
    messages: list[RequestMessage] = [suspect("a"), StageUpdate("a", 1, {}), StagePause("a")]
    assert all(trials.holds_back(message) for message in messages)
    assert not trials.holds_back(StagePause("b"))
    assert trials.num_held == 1
    assert trials.ask() == "a"
    assert trials.start("a") == messages
    assert trials.num_held == 0
    assert not trials.holds_back(StageUpdate("a", 2, {}))


def test_trials_come_one_at_a_time_oldest_first() -> None:
    trials = Trials()
    for name in ("a", "b"):
        trials.holds_back(suspect(name))
    assert trials.ask() == "a"
    assert trials.ask() is None
    trials.start("a")
    assert trials.ask() is None
    trials.end()
    assert trials.ask() == "b"


def test_a_group_is_tried_as_one_under_its_parents_id() -> None:
    trials = Trials()
    members: list[RequestMessage] = [
        suspect("p", "p"),
        suspect("p/0", "p"),
        StageUpdate("p/0", 1, {}),
    ]
    assert all(trials.holds_back(message) for message in members)
    assert trials.ask() == "p"
    assert trials.start("p") == members


def test_output_beyond_what_was_done_before_passes_the_trial() -> None:
    trials = Trials()
    trials.holds_back(suspect("a", skip=5))
    trials.ask()
    trials.start("a")
    for request_id, position in (("a", 5), ("b", 9)):
        trials.note_output(request_id, position)
        assert not trials.is_passed
    trials.note_output("a", 6)
    assert trials.is_passed


def test_a_dropped_suspect_leaves_nothing_and_its_grant_finds_nobody() -> None:
    trials = Trials()
    for message in (suspect("p", "p"), suspect("p/0", "p")):
        trials.holds_back(message)
    assert trials.ask() == "p"
    trials.drop("p")
    assert trials.num_held == 1
    trials.drop("p/0")
    assert trials.num_held == 0
    assert trials.start("p") == []
