"""The tone pipeline's stages: what they promise is what every stage promises."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine.errors import InvalidRequestError
from engine.messages import SamplingParams, StageRequest, StageUpdate
from worker.models.sine.adapter import list_voices, transform_prompt
from worker.models.sine.notes import NotesStage
from worker.models.sine.tone import ToneStage
from worker.stage_model import RowStatus

NOTE = {"hz": 440.0, "num_samples": 5000}


def tone(**options: Any) -> ToneStage:
    stage = ToneStage(24000)
    stage.add(StageRequest("r", {}, SamplingParams(), 0, **options))
    return stage


def sound(stage: ToneStage) -> np.ndarray:
    samples = [np.zeros(0, np.int16)]
    while stage.has_work("r"):
        output = stage.step(["r"])
        samples += output.multimodal_outputs["audio"]
        if output.rows["r"].finished:
            break
    return np.concatenate(samples)


@pytest.mark.parametrize("skip", [0, 1, 1919, 1920, 4999, 5000, 7000])
def test_a_replay_gives_the_rest_of_the_same_samples(skip: int) -> None:
    whole = tone()
    for number in range(2):
        whole.update(StageUpdate("r", number, {"note": NOTE}, final=number == 1))
    expected = sound(whole)
    first = int(skip >= 5000)
    again = tone(first_unit=first, start_position=5000 * first, skip_position=skip)
    for number in range(first, 2):
        again.update(StageUpdate("r", number, {"note": NOTE}, final=number == 1))
    assert np.array_equal(sound(again), expected[skip:])


def test_notes_of_an_input_are_done_when_all_its_words_are() -> None:
    stage = NotesStage()
    prompt = transform_prompt({"text": "one two"})
    stage.add(StageRequest("r", prompt, SamplingParams(), 0, resumable=True))
    stage.update(StageUpdate("r", 1, {"text": "three"}))
    done = [stage.step(["r"]).rows["r"].units_done for _ in range(3)]
    assert done == [0, 1, 2]


def test_notes_can_be_replayed_from_any_word() -> None:
    prompt = transform_prompt({"text": "a bb ccc dddd"})
    segments = [StageUpdate("r", 1, {"text": "e ff"}), StageUpdate("r", 2, {}, final=True)]

    def notes(request: StageRequest) -> tuple[list[Any], list[RowStatus]]:
        stage, made, rows = NotesStage(), [], []
        stage.add(request)
        for segment in segments[max(0, request.first_unit - 1) :]:
            stage.update(segment)
        while stage.has_work("r"):
            output = stage.step(["r"])
            made += output.multimodal_outputs["note"]
            rows.append(output.rows["r"])
            if rows[-1].finished:
                break
        return made, rows

    whole, rows = notes(StageRequest("r", prompt, SamplingParams(), 0, resumable=True))
    assert len(whole) == 6
    for number, row in enumerate(rows[:-1], 1):
        again, _ = notes(
            StageRequest(
                "r",
                prompt,
                SamplingParams(),
                0,
                resumable=True,
                first_unit=row.units_done,
                start_position=row.done_position,
                skip_position=number,
                checkpoint=row.checkpoint,
            )
        )
        assert row.done_position == number
        assert again == whole[number:]


@pytest.mark.parametrize("prompt", [{}, {"text": " "}, {"text": 5}, {"text": "x", "voice": "no"}])
def test_wrong_prompts_are_refused(prompt: dict[str, object]) -> None:
    with pytest.raises(InvalidRequestError):
        transform_prompt(prompt)


def test_every_voice_has_its_own_base_frequency() -> None:
    bases = {voice.options["base_hz"] for voice in list_voices()}
    assert len(bases) == len(list_voices())
