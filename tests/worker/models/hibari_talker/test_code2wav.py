"""The code2wav stage that is fed with tokens: order, words, replays, and when it can step."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from engine.messages import SamplingParams, StageRequest, StageUpdate
from tests.worker.models.hibari import bundled
from tests.worker.models.hibari_talker.spoken import tokens
from worker.models.hibari.units import make_silent_unit
from worker.models.hibari_talker.code2wav import TalkerCode2WavStage
from worker.stage_model import RowStatus

pytestmark = pytest.mark.model

TEXTS = (bundled.LONG, bundled.QUESTION)


def payloads(cut: int) -> list[dict[str, Any]]:
    """Both sentences in pieces of ``cut`` tokens."""
    found: list[dict[str, Any]] = []
    for number, text in enumerate(TEXTS):
        written, ids = tokens(text, stretch=1.1), bundled.ids(text)
        unit = {
            "ids": ids,
            "speed": 1.0,
            "words": [(1, 4, 0, 3), (5, 12, 4, 9), (30, ids.size - 1, 10, 20)],
            "seed": 5 + number,
            "begins": number == 0,
            "sentence": (0, 20, True),
            "shape": {"gain_db": 2.0},
            "model_path": "",
            "warnings": (),
        }
        for start in range(0, len(written), cut):
            piece: dict[str, Any] = {"tokens": np.array(written[start : start + cut])}
            found.append(piece if start else piece | {"unit": unit})
    return found


@pytest.fixture(scope="module")
def stage() -> TalkerCode2WavStage:
    return TalkerCode2WavStage()


def add(stage: TalkerCode2WavStage, name: str, **options: Any) -> None:
    stage.add(StageRequest(name, {}, SamplingParams(), 7, **options))


Heard = tuple[npt.NDArray[np.int16], list[RowStatus], list[tuple[int, ...]]]


def run(
    stage: TalkerCode2WavStage, name: str, inputs: list[dict[str, Any]], first: int = 0
) -> Heard:
    """Give one input after another; step as far as each allows."""
    samples, rows, words = [np.zeros(0, np.int16)], [], []
    for number in range(first, len(inputs)):
        final = number == len(inputs) - 1
        stage.update(StageUpdate(name, number, inputs[number], final=final))
        while stage.has_work(name):
            output = stage.step([name])
            assert output.rows[name].error is None
            samples += output.multimodal_outputs["audio"]
            words += [word for found in output.multimodal_outputs["words"] for word in found]
            rows.append(output.rows[name])
            if rows[-1].finished:
                stage.abort(name)
    return np.concatenate(samples), rows, words


@pytest.mark.parametrize("cut", [3, 16, 300])
def test_samples_words_and_positions_do_not_depend_on_the_pieces(
    stage: TalkerCode2WavStage, cut: int
) -> None:
    inputs = payloads(cut)
    add(stage, "whole")
    audio, _, words = run(stage, "whole", payloads(1000))
    add(stage, "pieces")
    got, rows, got_words = run(stage, "pieces", inputs)
    assert np.array_equal(got, audio)
    assert got_words == words
    assert len(words) == 6
    assert rows[-1].finished
    assert (rows[-1].units_done, rows[-1].done_position) == (len(inputs), len(audio))


def test_sound_begins_long_before_the_last_token(stage: TalkerCode2WavStage) -> None:
    add(stage, "early")
    inputs = payloads(4)
    num_given = 0
    while not stage.has_work("early"):
        stage.update(StageUpdate("early", num_given, inputs[num_given]))
        num_given += 1
    samples = stage.step(["early"]).multimodal_outputs["audio"]
    assert num_given * 4 < len(tokens(TEXTS[0])) / 2
    assert len(samples[0]) > 2400
    stage.abort("early")


@pytest.mark.parametrize("share", [0.02, 0.3, 0.6, 0.97])
def test_a_replay_from_the_last_whole_sentence_goes_on_with_the_same_samples(
    stage: TalkerCode2WavStage, share: float
) -> None:
    inputs = payloads(16)
    add(stage, "first")
    audio, rows, words = run(stage, "first", inputs)
    delivered = [row for row in rows if row.end_position <= share * len(audio)]
    at = delivered[-1] if delivered else RowStatus()
    add(
        stage,
        "again",
        first_unit=at.units_done,
        start_position=at.done_position,
        skip_position=at.end_position,
    )
    rest, _, more = run(stage, "again", inputs, at.units_done)
    assert np.array_equal(rest, audio[at.end_position :])
    assert more == [word for word in words if word[1] > at.end_position]


def test_a_wrong_token_fails_its_request_when_it_comes(stage: TalkerCode2WavStage) -> None:
    add(stage, "wrong")
    inputs = payloads(1000)
    inputs[0]["tokens"][5] = 3
    with pytest.raises(ValueError, match="token 3 is no prosody token"):
        stage.update(StageUpdate("wrong", 0, inputs[0]))
    stage.abort("wrong")


def test_warnings_behind_the_last_sound_are_told_without_samples(
    stage: TalkerCode2WavStage,
) -> None:
    add(stage, "rest")
    spoken = payloads(1000)
    audio, rows, words = run(stage, "rest", [*spoken, {"unit": make_silent_unit(("late",))}])
    assert rows[-1].finished
    assert (rows[-1].units_done, rows[-1].done_position) == (len(spoken) + 1, len(audio))
    assert len(words) == 6

    add(stage, "silent")
    stage.update(StageUpdate("silent", 0, {"unit": make_silent_unit(("late",))}, final=True))
    output = stage.step(["silent"])
    assert output.multimodal_outputs["warnings"] == [["late"]]
    assert [len(audio) for audio in output.multimodal_outputs["audio"]] == [0]
    assert output.rows["silent"].finished
    stage.abort("silent")
