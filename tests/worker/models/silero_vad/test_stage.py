"""The stage that finds speech: units, their order, and where a replay may start."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine.messages import SamplingParams, StageInteraction, StageRequest, StageUpdate
from tests.spoken import RATE, SENTENCES, conversation, silence, spoken
from worker.models.silero_vad.probabilities import SpeechNet, model_path
from worker.models.silero_vad.stage import VadStage
from worker.models.whisper.adapter import transform_prompt
from worker.stage_model import RowStatus

pytestmark = pytest.mark.asr

Unit = dict[str, Any]
VAD = {"silence_duration_ms": 600}


@pytest.fixture(scope="module")
def stage() -> VadStage:
    return VadStage(SpeechNet(model_path()))


def begin(stage: VadStage, prompt: dict[str, Any], **options: Any) -> None:
    request = StageRequest("r", transform_prompt(prompt), SamplingParams(), 1, **options)
    request.resumable = True
    stage.add(request)


def window(unit: int, audio: Any, first_sample: int = 0, *, final: bool = False) -> StageUpdate:
    return StageUpdate("r", unit, {"audio": audio, "first_sample": first_sample}, final=final)


def live(at: int, size: int = 1600) -> StageUpdate:
    """A tenth of a second of the conversation, as input number ``1 + at / size``."""
    return window(1 + at // size, conversation()[at : at + size], at)


def run(stage: VadStage) -> tuple[list[Unit], list[RowStatus]]:
    units, rows = [], []
    while stage.has_work("r"):
        output = stage.step(["r"])
        units += output.multimodal_outputs["heard"]
        rows.append(output.rows["r"])
        assert rows[-1].error is None
        if rows[-1].finished:
            stage.abort("r")
    return units, rows


def test_a_recording_is_heard_chunk_by_chunk_and_its_end_ends_the_request(stage: VadStage) -> None:
    audio = np.concatenate([silence(1.0), spoken(SENTENCES[0]), silence(4.0), spoken(SENTENCES[1])])
    begin(stage, {"mode": "recording"})
    stage.update(window(1, audio, 160, final=True))

    units, rows = run(stage)

    assert [unit["kind"] for unit in units] == ["chunk", "chunk"]
    assert [unit.get("next_sample") for unit in units] == [None, 160 + len(audio)]
    assert [row.finished for row in rows] == [False] * (len(rows) - 1) + [True]
    for unit in units:
        first, last = unit["first_sample"] - 160, unit["last_sample"] - 160
        np.testing.assert_array_equal(unit["speech"], audio[first:last])


def test_a_silent_window_says_where_to_go_on(stage: VadStage) -> None:
    begin(stage, {"mode": "recording"})
    stage.update(window(1, silence(30.0), 1000))

    [unit], rows = run(stage)

    assert (unit["kind"], unit["speech"]) == ("silence", None)
    assert 29 * RATE < unit["next_sample"] - 1000 <= 30 * RATE
    assert rows[-1].units_done == 2
    stage.abort("r")


def test_a_long_window_leaves_room_for_others_between_its_steps(stage: VadStage) -> None:
    begin(stage, {"mode": "recording"})
    stage.update(window(1, silence(20.0), final=True))

    _, rows = run(stage)

    assert len(rows) == 10
    assert stage.num_requests == 0


def test_a_pause_ends_a_chunk_if_detection_was_asked_for(stage: VadStage) -> None:
    begin(stage, {"mode": "recording", "detection": VAD})
    stage.update(window(1, conversation(), final=True))

    units, _ = run(stage)

    assert [unit["kind"] for unit in units] == ["chunk"] * len(SENTENCES)


def test_a_replay_of_a_recording_begins_with_the_window_that_was_not_done(stage: VadStage) -> None:
    begin(stage, {"mode": "recording"})
    stage.update(window(1, conversation()))
    first, rows = run(stage)
    stage.update(window(2, spoken(SENTENCES[0]), 500, final=True))
    second, _ = run(stage)

    done = rows[-1]
    position = len(first)
    begin(stage, {"mode": "recording"}, first_unit=done.units_done, start_position=position)
    stage.update(window(2, spoken(SENTENCES[0]), 500, final=True))
    again, _ = run(stage)

    assert (done.units_done, done.done_position) == (2, position)
    assert [unit["last_sample"] for unit in again] == [unit["last_sample"] for unit in second]


def test_a_replay_skips_the_units_that_have_left(stage: VadStage) -> None:
    begin(stage, {"mode": "recording", "detection": VAD}, skip_position=3)
    stage.update(window(1, conversation(), final=True))

    units, rows = run(stage)

    assert len(units) == 1
    assert rows[-1].end_position == len(SENTENCES)


def test_a_final_update_that_was_done_with_only_ends_a_replay(stage: VadStage) -> None:
    begin(stage, {"mode": "recording"}, first_unit=2, start_position=1)
    stage.update(window(1, conversation(), final=True))

    units, rows = run(stage)

    assert units == []
    assert [row.finished for row in rows] == [True]


def test_live_audio_is_told_of_as_it_comes(stage: VadStage) -> None:
    begin(stage, {"mode": "live", "detection": VAD, "language": "en"})
    kinds = []
    for at in range(0, len(conversation()), 1600):
        stage.update(live(at))
        kinds += [unit["kind"] for unit in run(stage)[0]]
    stage.abort("r")

    assert kinds == ["started", "stopped"] * len(SENTENCES)


def test_a_live_replay_begins_in_silence_and_tells_the_same(stage: VadStage) -> None:
    audio = np.concatenate([conversation(), silence(5.0), conversation()])
    updates = [
        window(1 + i, audio[at : at + 1600], at) for i, at in enumerate(range(0, len(audio), 1600))
    ]
    begin(stage, {"mode": "live", "detection": VAD})
    told: list[Unit] = []
    rows: list[RowStatus] = []
    for update in updates:
        stage.update(update)
        units, new_rows = run(stage)
        told, rows = told + units, rows + new_rows
    done = rows[-1]
    stage.abort("r")

    begin(
        stage,
        {"mode": "live", "detection": VAD},
        first_unit=done.units_done,
        start_position=done.done_position,
    )
    for update in updates[done.units_done - 1 :]:
        stage.update(update)
    again, _ = run(stage)
    stage.abort("r")

    # The checkpoint is behind the first conversation.
    assert done.done_position == 2 * len(SENTENCES)
    assert done.units_done * 1600 > len(conversation())
    expected = told[done.done_position :]
    assert [unit["kind"] for unit in again] == [unit["kind"] for unit in expected]
    # The network remembers a little of what was before its warm-up: a few frames of 32 ms.
    for unit, other in zip(again, expected, strict=True):
        assert abs(unit["first_sample"] - other["first_sample"]) <= 8 * 512
        assert abs(unit["last_sample"] - other["last_sample"]) <= 8 * 512


def test_a_flush_ends_a_turn_and_an_update_changes_what_is_asked_for(stage: VadStage) -> None:
    begin(stage, {"mode": "live"})
    stage.update(window(1, spoken(SENTENCES[0])))
    changed = transform_prompt({"mode": "live", "context": "Trains."})
    stage.interact(StageInteraction("r", 2, "update", changed))
    stage.interact(StageInteraction("r", 3, "flush"))

    [unit], _ = run(stage)
    stage.abort("r")

    assert (unit["kind"], unit["is_committed"]) == ("stopped", True)
    assert unit["recognition"]["context"] == "Trains."


def test_the_end_of_live_audio_ends_its_last_turn(stage: VadStage) -> None:
    begin(stage, {"mode": "live", "detection": VAD})
    stage.update(window(1, conversation()[: 3 * RATE]))
    stage.update(StageUpdate("r", 2, {}, final=True))

    units, rows = run(stage)

    assert [unit["kind"] for unit in units] == ["started", "stopped"]
    assert rows[-1].finished
