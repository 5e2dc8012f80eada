"""What stages share: replays of audio, and rows that fail alone."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np
import pytest

from engine.messages import Payload, StageInteraction
from worker.rows import AudioRow, UnitStage
from worker.stage_model import RowStatus


@dataclass
class _Words:
    words: deque[str] = field(default_factory=deque)

    @property
    def has_work(self) -> bool:
        return bool(self.words)

    def status(self) -> RowStatus:
        return RowStatus(finished=not self.words)


class _Speller(UnitStage[_Words]):
    output_name = "letters"

    def put(self, request_id: str, *words: str) -> None:
        self._rows[request_id] = _Words(deque(words))

    def next_unit(self, row: _Words) -> Payload | None:
        word = row.words.popleft()
        if not word.isalpha():
            raise ValueError(word)
        return {"first": word[0]} if word.islower() else None


def test_a_row_that_fails_or_has_nothing_to_send_leaves_the_others_their_units() -> None:
    stage = _Speller()
    stage.put("a", "one", "two")
    stage.put("b", "1")
    stage.put("c", "THREE")
    stage.put("d", "four")
    output = stage.step(["a", "b", "c", "d"])
    assert output.multimodal_outputs == {
        "meta": {"req_id": ["a", "d"], "sparse_audio": ["1"]},
        "letters": [{"first": "o"}, {"first": "f"}],
    }
    assert isinstance(output.rows["b"].error, ValueError)
    assert [output.rows[rid].finished for rid in "acd"] == [False, True, True]


def test_a_request_that_was_let_go_has_no_work_and_is_not_counted() -> None:
    stage = _Speller()
    stage.put("a", "one")
    assert stage.has_work("a")
    stage.abort("a")
    stage.abort("a")
    assert (stage.has_work("a"), stage.num_requests) == (False, 0)


def test_only_a_first_stage_takes_interactions() -> None:
    with pytest.raises(ValueError, match="first stage"):
        _Speller().interact(StageInteraction("a", 0, "flush"))


@pytest.mark.parametrize("skip_position", [0, 7, 10, 13, 20, 40])
def test_a_replay_sends_just_the_samples_that_were_not_sent(skip_position: int) -> None:
    whole = np.arange(30, dtype=np.int16)
    row = AudioRow(units_done=0, done_position=0, skip_position=skip_position)
    sent = []
    for unit in (whole[:10], whole[10:25], whole[25:]):
        row.units.append(unit)
        sent += [row.emit(unit[:4]), row.emit(unit[4:])]
        row.close_unit()
    row.is_open = False
    np.testing.assert_array_equal(np.concatenate(sent), whole[skip_position:])
    status = row.status()
    assert (status.finished, status.units_done, status.done_position) == (True, 3, 30)
    assert status.end_position == max(30, skip_position)
