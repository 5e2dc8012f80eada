"""The journal of a stage: what a replay sends again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

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
