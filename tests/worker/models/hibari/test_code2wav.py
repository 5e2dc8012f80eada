"""The code2wav stage: positions, subsets, replays, conversion."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from engine.messages import SamplingParams, StageRequest, StageUpdate
from worker.models.hibari.adapter import transform_prompt
from worker.models.hibari.code2wav import Code2WavStage, place_words
from worker.models.hibari.prosody import ProsodyStage
from worker.stage_model import RowStatus

pytestmark = pytest.mark.model

TEXT = "Good morning to all of you out there. How was the way? It was long, and it was cold."


@pytest.fixture(scope="module")
def units() -> list[dict[str, Any]]:
    prosody, found = ProsodyStage(), []
    prosody.add(StageRequest("r", transform_prompt({"text": TEXT}), SamplingParams(), 7))
    while prosody.has_work("r"):
        output = prosody.step(["r"])
        found += output.multimodal_outputs["unit"]
        if output.rows["r"].finished:
            break
    return found


@pytest.fixture(scope="module")
def stage() -> Code2WavStage:
    return Code2WavStage()


def add(
    stage: Code2WavStage, name: str, units: list[dict[str, Any]], first: int = 0, **options: Any
) -> None:
    stage.add(StageRequest(name, {}, SamplingParams(), 7, first_unit=first, **options))
    for number in range(first, len(units)):
        final = number == len(units) - 1
        stage.update(StageUpdate(name, number, {"unit": units[number]}, final=final))


def run(
    stage: Code2WavStage, name: str
) -> tuple[npt.NDArray[np.int16], list[RowStatus], list[tuple[int, ...]]]:
    samples, rows, words = [np.zeros(0, np.int16)], [], []
    while stage.has_work(name):
        output = stage.step([name])
        samples += output.multimodal_outputs["audio"]
        words += [word for found in output.multimodal_outputs["words"] for word in found]
        rows.append(output.rows[name])
        if rows[-1].finished:
            stage.abort(name)
    return np.concatenate(samples), rows, words


def test_positions_follow_the_samples_and_sentences(
    stage: Code2WavStage, units: list[dict[str, Any]]
) -> None:
    add(stage, "r", units)
    audio, rows, words = run(stage, "r")
    assert rows[-1].end_position == len(audio)
    assert rows[-1].units_done == len(units) == 3
    assert rows[-1].done_position == len(audio)
    assert [row.finished for row in rows] == [False] * (len(rows) - 1) + [True]
    assert words[0][0] >= 0
    assert words[-1][1] <= len(audio)


@pytest.mark.parametrize("share", [0.01, 0.3, 0.5, 0.9, 0.999])
def test_a_replay_from_the_last_whole_sentence_goes_on_with_the_same_samples(
    stage: Code2WavStage, units: list[dict[str, Any]], share: float
) -> None:
    add(stage, "r", units)
    audio, rows, words = run(stage, "r")
    skip = int(share * len(audio))
    done = [(row.units_done, row.done_position) for row in rows if row.done_position <= skip]
    first, start = done[-1] if done else (0, 0)
    add(stage, "again", units, first, start_position=start, skip_position=skip)
    rest, _, words_again = run(stage, "again")
    assert np.array_equal(rest, audio[skip:])
    assert (
        words_again
        == [word for word in words if word[0] >= skip or start >= skip][-len(words_again) :]
    )


def test_a_later_sentence_opens_in_a_step_without_audio(
    stage: Code2WavStage, units: list[dict[str, Any]]
) -> None:
    for name in ("a", "b"):
        add(stage, name, units)
    stage.step(["a"])
    sizes = []
    while stage.has_work("a") and stage.has_work("b"):
        output = stage.step(["a", "b"])
        sizes.append(len(output.multimodal_outputs["meta"]["req_id"]))
        for name in ("a", "b"):
            if output.rows[name].finished:
                stage.abort(name)
    assert 1 in sizes
    for name in ("a", "b"):
        stage.abort(name)


def test_a_unit_that_cannot_be_decoded_fails_its_request_alone(
    stage: Code2WavStage, units: list[dict[str, Any]]
) -> None:
    add(stage, "good", units[:1])
    add(stage, "bad", [units[0] | {"f0": units[0]["f0"][:-1]}])
    output = stage.step(["good", "bad"])
    assert isinstance(output.rows["bad"].error, ValueError)
    assert output.multimodal_outputs["meta"]["req_id"] == ["good"]
    for name in ("good", "bad"):
        stage.abort(name)


def test_a_request_closed_without_a_unit_ends_without_audio(stage: Code2WavStage) -> None:
    stage.add(StageRequest("r", {}, SamplingParams(), 7))
    assert not stage.has_work("r")
    stage.update(StageUpdate("r", 0, {}, final=True))
    audio, rows, _ = run(stage, "r")
    assert len(audio) == 0
    assert rows[-1].finished


def test_words_are_placed_by_the_durations_before_them() -> None:
    unit = {
        "durations": np.array([12, 4, 6, 2, 8], np.int32),
        "words": [(1, 3, 0, 5), (3, 4, 6, 9)],
        "begins": True,
    }
    # 12 units are 24 frames, of which 4 are kept; a unit has 600 samples. Words sound 900 early.
    assert place_words(unit, 1000) == [(1300, 7300, 0, 5), (7300, 8500, 6, 9)]


def test_each_chunk_tells_its_sentence_and_the_last_one_its_end(
    stage: Code2WavStage, units: list[dict[str, Any]]
) -> None:
    add(stage, "told", units)
    told = []
    while stage.has_work("told"):
        output = stage.step(["told"])
        told += output.multimodal_outputs["sentence"]
        if output.rows["told"].finished:
            stage.abort("told")
    sentences = [(first, last) for first, last, is_end in told if is_end]

    assert [TEXT[first:last] for first, last in sentences] == [
        "Good morning to all of you out there.",
        "How was the way?",
        "It was long, and it was cold.",
    ]
    assert list(dict.fromkeys((first, last) for first, last, _ in told)) == sentences
    assert told[-1][2]
