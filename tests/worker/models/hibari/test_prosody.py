"""The prosody stage: units, their order, and where a replay may start."""

from __future__ import annotations

from array import array
from typing import Any

import pytest

from engine.errors import InvalidRequestError
from engine.messages import SamplingParams, StageInteraction, StageRequest, StageUpdate
from worker.models.hibari.adapter import transform_prompt
from worker.models.hibari.prosody import ProsodyStage
from worker.models.hibari.text.clean import CleanText, pack_clean
from worker.stage_model import RowStatus

pytestmark = pytest.mark.model

TEXT = "One is here. Two is there! Is three anywhere?"


@pytest.fixture(scope="module")
def stage() -> ProsodyStage:
    loaded = ProsodyStage()
    loaded.warm_up()
    return loaded


def request(text: str, **options: Any) -> StageRequest:
    resumable = options.get("resumable", False)
    prompt = transform_prompt({"text": text} | ({"resumable": True} if resumable else {}))
    return StageRequest("r", prompt, SamplingParams(), 7, **options)


def run(stage: ProsodyStage) -> tuple[list[dict[str, Any]], list[RowStatus]]:
    """Step the request until it has no more to do."""
    units, rows = [], []
    while stage.has_work("r"):
        output = stage.step(["r"])
        units += output.multimodal_outputs["unit"]
        rows.append(output.rows["r"])
        if rows[-1].finished or rows[-1].error:
            stage.abort("r")
    return units, rows


def test_each_sentence_is_a_unit_and_the_last_ends_the_request(stage: ProsodyStage) -> None:
    stage.add(request(TEXT))
    units, rows = run(stage)
    assert [row.end_position for row in rows] == [1, 2, 3]
    assert [row.finished for row in rows] == [False, False, True]
    assert [unit["begins"] for unit in units] == [True, False, False]
    assert len({unit["seed"] for unit in units}) == 3
    assert stage.num_requests == 0


def test_a_units_frames_fit_its_durations(stage: ProsodyStage) -> None:
    stage.add(request(TEXT))
    for unit in run(stage)[0]:
        num_frames = 2 * int(unit["durations"].sum())
        assert len(unit["ids"]) == len(unit["durations"])
        assert unit["f0"].shape == unit["energy"].shape == (num_frames,)


def test_a_replay_skips_what_was_passed_on_and_gives_the_same_units(stage: ProsodyStage) -> None:
    stage.add(request(TEXT))
    first, _ = run(stage)
    stage.add(request(TEXT, skip_position=2))
    again, rows = run(stage)
    assert [row.end_position for row in rows] == [2, 2, 3]
    assert len(again) == 1
    assert again[0]["seed"] == first[2]["seed"]
    assert again[0]["ids"].tolist() == first[2]["ids"].tolist()
    assert again[0]["words"] == first[2]["words"]


LONG_TEXT = (
    'Dr. Who said: "Go!" He went at 3.30 p.m. on Jan. 5. It cost $4.50, he said... '
    "Then -- nothing; no one came.\n\nA new paragraph begins here? Yes. " + "word " * 120 + "end."
)


def same_units(first: list[dict[str, Any]], second: list[dict[str, Any]]) -> bool:
    keys = ("seed", "begins", "words", "sentence")
    return len(first) == len(second) and all(
        a["ids"].tolist() == b["ids"].tolist() and all(a[key] == b[key] for key in keys)
        for a, b in zip(first, second, strict=True)
    )


def test_a_replay_starts_at_the_last_sentence_and_gives_the_same_units(
    stage: ProsodyStage,
) -> None:
    stage.add(request(LONG_TEXT))
    whole, rows = run(stage)
    assert len({row.done_position for row in rows}) > 4
    for row in rows[:-1]:
        options = {"start_position": row.done_position, "skip_position": row.end_position}
        stage.add(request(LONG_TEXT, checkpoint=row.checkpoint, **options))
        again, rows_again = run(stage)
        assert same_units(again, whole[row.end_position :])
        assert len(rows_again) == len(whole) - row.done_position
        assert all(len(str(r.checkpoint)) < 100 for r in rows_again)


def test_a_session_is_replayed_from_its_last_sentence_and_what_came_after_it(
    stage: ProsodyStage,
) -> None:
    slow = transform_prompt({"text": "", "resumable": True, "speed": 0.5})
    inputs: list[StageUpdate | StageInteraction] = []
    offset = 0
    for number, start in enumerate(range(0, len(LONG_TEXT), 41), 1):
        text = LONG_TEXT[start : start + 41]
        inputs.append(StageUpdate("r", len(inputs) + 1, {"text": text, "text_offset": offset}))
        offset += len(text)
        if number in (2, 5):
            inputs.append(StageInteraction("r", len(inputs) + 1, "flush"))
        if number == 4:
            inputs.append(StageInteraction("r", len(inputs) + 1, "update", slow))
    inputs.append(StageUpdate("r", len(inputs) + 1, {"text_offset": offset}, final=True))
    whole, starts = run_session(stage, request("", resumable=True), inputs)
    assert len(starts) > 4
    assert {checkpoint is None for _, checkpoint in starts.values()} == {False}
    for done_position, (units_done, checkpoint) in starts.items():
        replay = request(
            "",
            resumable=True,
            first_unit=units_done,
            start_position=done_position,
            skip_position=done_position,
            checkpoint=checkpoint,
        )
        for item in inputs[: units_done - 1]:
            if isinstance(item, StageInteraction) and item.kind == "update":
                replay.prompt |= slow
        again, _ = run_session(stage, replay, inputs[units_done - 1 :] if units_done else inputs)
        assert same_units(again, whole[done_position:])


def run_session(
    stage: ProsodyStage, start: StageRequest, inputs: list[StageUpdate | StageInteraction]
) -> tuple[list[dict[str, Any]], dict[int, tuple[int, Any]]]:
    """All units, and each place at which a replay may start."""
    stage.add(start)
    units, rows = run(stage)
    for item in inputs:
        if isinstance(item, StageUpdate):
            stage.update(item)
        else:
            stage.interact(item)
        more_units, more_rows = run(stage)
        units, rows = units + more_units, rows + more_rows
    assert rows[-1].finished
    return units, {row.done_position: (row.units_done, row.checkpoint) for row in rows[:-1]}


def test_a_session_can_be_replayed_from_where_its_text_was_used_up(stage: ProsodyStage) -> None:
    stage.add(request("One is here. ", resumable=True))
    stage.update(StageUpdate("r", 1, {"text": "Two is", "text_offset": 13}))
    run(stage)
    stage.update(StageUpdate("r", 2, {"text": " there! Is", "text_offset": 19}))
    stage.interact(StageInteraction("r", 3, "flush"))
    units, rows = run(stage)
    assert (rows[-1].units_done, rows[-1].done_position) == (4, 3)
    stage.abort("r")
    stage.add(request("ignored", resumable=True, first_unit=4, start_position=3, skip_position=3))
    stage.update(StageUpdate("r", 4, {"text": "Four.", "text_offset": 29}, final=True))
    units, rows = run(stage)
    assert units[0]["words"][0][2:] == (29, 34)
    assert not units[0]["begins"]
    assert rows[-1].finished
    assert rows[-1].end_position == 4


def test_speech_begins_anew_where_it_was_cut(stage: ProsodyStage) -> None:
    stage.add(
        request("", resumable=True, first_unit=5, start_position=3, skip_position=3, cut_position=3)
    )
    stage.update(StageUpdate("r", 5, {"text": "New words. More.", "text_offset": 90}, final=True))
    units, _ = run(stage)
    assert [unit["begins"] for unit in units] == [True, False]


def test_an_update_of_the_voice_counts_from_the_next_text(stage: ProsodyStage) -> None:
    stage.add(request("One is here.", resumable=True))
    slow = transform_prompt({"text": "", "resumable": True, "speed": 0.5})
    stage.interact(StageInteraction("r", 1, "update", slow))
    stage.update(StageUpdate("r", 2, {"text": "One is here.", "text_offset": 12}, final=True))
    units, _ = run(stage)
    lengths = [int(unit["durations"].sum()) for unit in units]
    assert lengths[1] == pytest.approx(2 * lengths[0], rel=0.15)


def test_a_text_that_turns_out_to_have_no_sound_is_the_callers_error(stage: ProsodyStage) -> None:
    prompt = transform_prompt({"text": "x"})
    prompt |= {"text": ".", "starts": b"\0" * 4, "ends": b"\1\0\0\0"}
    stage.add(StageRequest("r", prompt, SamplingParams(), 7))
    _, rows = run(stage)
    assert isinstance(rows[-1].error, InvalidRequestError)
    assert rows[-1].error.param == "input"


def test_an_open_session_without_text_has_nothing_to_do(stage: ProsodyStage) -> None:
    stage.add(request("", resumable=True))
    assert not stage.has_work("r")
    stage.update(StageUpdate("r", 1, {}, final=True))
    units, rows = run(stage)
    assert units == []
    assert rows[-1].finished


def test_a_word_that_could_not_be_read_behind_the_last_sound_is_told_at_the_end(
    stage: ProsodyStage,
) -> None:
    text = f"One. {'1' * 60}."
    places = array("I", range(len(text) + 1))
    clean = CleanText(text, places[:-1], places[1:], (), True)
    prompt = transform_prompt({"text": "x"}) | pack_clean(clean)
    stage.add(StageRequest("r", prompt, SamplingParams(), 7))
    units, rows = run(stage)
    assert units[0]["warnings"] == ()
    assert units[1:] == [{"warnings": ("skipped a word that could not be read",)}]
    assert [row.finished for row in rows] == [False, True]
