"""The journal of a stage: what a replay sends again."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.messages import OutputRow
from engine.orchestrator import records
from engine.orchestrator.records import StageProgress


def journal(*kinds: str) -> StageProgress:
    progress = StageProgress(num_inputs=1)
    for number, kind in enumerate(kinds):
        if kind == "text":
            progress.append_update("r", {"text": str(number)}, final=False)
        elif kind == "final":
            progress.append_update("r", {}, final=True)
        else:
            progress.append_interaction("r", kind, {"speed": number})
    return progress


def test_inputs_are_numbered_behind_the_prompt() -> None:
    progress = journal("text", "flush", "text")
    assert [item.unit for item in progress.inputs] == [1, 2, 3]


def test_a_checkpoint_drops_what_is_done_and_keeps_its_updates_in_force() -> None:
    progress = journal("text", "update", "text", "text")
    progress.note_checkpoint(4, 7)
    assert [item.unit for item in progress.inputs] == [4]
    assert progress.overrides == {"speed": 1}
    assert (progress.units_done, progress.done_position) == (4, 7)


def test_a_checkpoint_never_goes_back() -> None:
    progress = journal("text", "text")
    progress.note_checkpoint(3, 5)
    progress.note_checkpoint(2, 4)
    assert (progress.units_done, progress.done_position) == (3, 5)


def test_a_checkpoint_within_an_input_keeps_that_input() -> None:
    progress = journal("text", "text")
    assert progress.note_checkpoint(1, 3, {"left": 2})
    assert progress.note_checkpoint(1, 4, {"left": 1})
    assert not progress.note_checkpoint(1, 3, {"left": 2})
    assert [item.unit for item in progress.inputs] == [1, 2]
    assert (progress.done_position, progress.checkpoint) == (4, {"left": 1})
    assert not progress.note_checkpoint(1, 5)  # its start is where it was
    assert progress.note_checkpoint(2, 5)
    assert progress.checkpoint is None


def test_a_journal_is_full_by_number_or_by_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "MAX_INPUTS", 3)
    assert not journal("text", "flush").is_full
    assert journal("text", "flush", "update").is_full
    monkeypatch.setattr(records, "MAX_INPUT_BYTES", 100)
    progress = StageProgress(num_inputs=1)
    progress.append_update("r", {"audio": np.zeros(24, np.float32), "first_sample": 9}, final=False)
    assert not progress.is_full
    progress.append_update("r", {"text": "four"}, final=False)
    assert progress.is_full
    progress.note_checkpoint(2, 0)
    assert not progress.is_full
    progress.append_update("r", {"text": "x" * 96}, final=False)
    assert progress.is_full
    progress.cut()
    assert not progress.is_full


@given(st.lists(st.integers(0, 5), min_size=1, max_size=20), st.integers(0, 25))
def test_what_waits_is_the_size_of_the_inputs_that_are_left(sizes: list[int], done: int) -> None:
    progress = StageProgress()
    for size in sizes:
        progress.append_update("r", {}, final=False, size=size)
    progress.note_checkpoint(done, done)
    assert progress.num_waiting == sum(sizes[done:])


def test_the_end_of_the_text_is_kept_for_a_replay() -> None:
    progress = journal("text", "final")
    progress.note_checkpoint(3, 9)
    assert [item.unit for item in progress.inputs] == [2]


def test_a_cut_drops_all_and_begins_at_the_position_reached() -> None:
    progress = journal("text", "update", "text")
    progress.position = 11
    progress.checkpoint = {"left": 3}
    progress.cut()
    assert not progress.inputs
    assert progress.num_waiting == 0
    assert progress.checkpoint is None
    assert progress.overrides == {"speed": 1}
    assert (progress.units_done, progress.done_position, progress.cut_position) == (4, 11, 11)


@given(st.lists(st.integers(0, 3), max_size=30))
def test_gaps_are_counted_only_while_no_output_comes_between(moves: list[int]) -> None:
    progress, run = StageProgress(), 0
    for move in moves:
        progress.position += move
        run = run + 1 if move == 0 and run else 1
        assert progress.count_gap() == run


def token_row(*tokens: int, ends: bool = False, units_done: int = 0) -> OutputRow:
    return OutputRow(
        "r", num_samples=len(tokens), tokens=list(tokens), ends_passage=ends, units_done=units_done
    )


def test_only_the_tokens_of_the_open_passage_are_kept() -> None:
    progress = StageProgress()
    for row in (token_row(1, 2), token_row(3, ends=True), token_row(4), token_row(5)):
        progress.take_row(row, 1)
    assert (progress.position, progress.open_passage, progress.open_tokens) == (5, 1, [4, 5])
    assert progress.first_passage == 0


def test_a_checkpoint_counts_the_passages_before_it_as_done_with() -> None:
    progress = journal("text")
    progress.take_row(token_row(1, ends=True), 1)
    progress.take_row(token_row(2, ends=True, units_done=2), 1)
    assert (progress.first_passage, progress.open_passage) == (2, 2)


def test_a_cut_forgets_the_open_passage_and_never_uses_its_number_again() -> None:
    progress = journal("text")
    progress.take_row(token_row(1, 2), 1)
    progress.cut()
    assert (progress.first_passage, progress.open_passage, progress.open_tokens) == (1, 1, [])
    progress.cut()
    assert progress.open_passage == 1
