"""The stage that writes down speech, with real weights."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import numpy as np
import pytest

from benchmarks.word_errors import num_errors, words
from engine.errors import ConfigError, InvalidRequestError
from engine.messages import SamplingParams, StageRequest, StageUpdate
from engine.pipeline import load_pipeline
from tests.spoken import RATE, SENTENCES, Samples, noise, spoken
from worker.models.whisper.adapter import transform_prompt
from worker.models.whisper.recogniser import (
    Recogniser,
    Recognition,
    RecognitionStoppedError,
    WhisperOptions,
    trim_tail,
)
from worker.models.whisper.stage import WhisperStage, load
from worker.stage_model import RowStatus, StageContext

pytestmark = pytest.mark.asr


@pytest.fixture(scope="module")
def stage() -> WhisperStage:
    return WhisperStage(Recogniser(WhisperOptions(), num_workers=1))


def begin(stage: WhisperStage, **options: Any) -> None:
    stage.add(StageRequest("r", {}, SamplingParams(), 1, resumable=True, **options))


def heard(
    speech: Samples | None,
    kind: str = "chunk",
    *,
    first: int = 0,
    guess: int | None = None,
    **prompt: Any,
) -> dict[str, Any]:
    """What the stage before says of some audio."""
    recognition = transform_prompt({"mode": "recording"} | prompt)["recognition"]
    return {
        "heard": {
            "kind": kind,
            "first_sample": first,
            "last_sample": first + (0 if speech is None else len(speech)),
            "speech": speech,
            "guess": guess,
            "is_detected": speech is not None,
            "recognition": recognition,
        }
    }


def run(
    stage: WhisperStage, *payloads: dict[str, Any], first: int = 0
) -> tuple[list[Any], list[RowStatus]]:
    """Give the stage these units, the last one as the final one, and step it to its end."""
    for number, payload in enumerate(payloads):
        final = number == len(payloads) - 1
        stage.update(StageUpdate("r", first + number, payload, final=final))
    units, rows = [], []
    while stage.has_work("r"):
        output = stage.step(["r"])
        units += output.multimodal_outputs["transcript"]
        rows.append(output.rows["r"])
        assert rows[-1].error is None
        if rows[-1].finished:
            stage.abort("r")
    return units, rows


def test_each_chunk_is_written_down_in_its_place_in_time(stage: WhisperStage) -> None:
    begin(stage)
    chunks = [heard(spoken(text), first=i * 10 * RATE) for i, text in enumerate(SENTENCES)]

    units, rows = run(stage, *chunks)

    for i, (unit, text) in enumerate(zip(units, SENTENCES, strict=True)):
        assert num_errors(words(text), words(unit["text"])) <= 1
        duration_s = len(spoken(text)) / RATE
        assert all(
            i * 10 <= s["start"] <= s["end"] <= i * 10 + duration_s for s in unit["segments"]
        )
    assert [row.finished for row in rows] == [False, False, False, True]
    assert units[0]["language"], units[0]["language_name"] == ("en", "english")
    assert stage.num_requests == 0


def test_words_have_times_that_follow_each_other(stage: WhisperStage) -> None:
    begin(stage)

    [unit], _ = run(stage, heard(spoken(SENTENCES[0]), first=16_000, word_times=True))

    found = [word for segment in unit["segments"] for word in segment["words"]]
    assert "".join(word[0] for word in found).strip() == unit["text"]
    assert all(
        1.0 <= start <= end <= 1.0 + len(spoken(SENTENCES[0])) / RATE for _, start, end, _ in found
    )
    assert all(a[2] <= b[1] + 0.021 for a, b in itertools.pairwise(found))
    assert all(0.0 <= word[3] <= 1.0 for word in found)


def test_silence_is_passed_over(stage: WhisperStage) -> None:
    begin(stage)

    units, rows = run(stage, heard(None, "silence"), heard(None, "silence"))

    assert units == []
    assert [(row.finished, row.units_done) for row in rows] == [(True, 2)]


def test_a_right_guess_is_not_recognised_again(stage: WhisperStage) -> None:
    begin(stage)
    guess = heard(spoken(SENTENCES[0]), "guess", guess=7)
    # The turn itself holds noise: what comes out can only be the guess.
    turn = heard(noise(1.0), "stopped", guess=7)
    stage.update(StageUpdate("r", 0, guess))
    stage.step(["r"])
    stage.update(StageUpdate("r", 1, turn, final=True))
    output = stage.step(["r"])
    stage.abort("r")

    [unit] = output.multimodal_outputs["transcript"]
    assert num_errors(words(SENTENCES[0]), words(unit["text"])) <= 1
    assert unit["kind"] == "stopped"


def test_a_guess_yields_to_the_turns_of_others(stage: WhisperStage) -> None:
    begin(stage)
    stage.add(StageRequest("other", {}, SamplingParams(), 1, resumable=True))
    other = StageUpdate("other", 0, heard(spoken(SENTENCES[1]), "stopped", guess=1), final=True)
    stage.update(other)
    stage.update(StageUpdate("r", 0, heard(spoken(SENTENCES[0]), "guess", guess=7)))
    # The turn holds other words than the guess: they tell which of the two was recognised.
    turn = heard(spoken(SENTENCES[2]), "stopped", guess=7)

    assert stage.step(["r"]).rows["r"].units_done == 1
    assert stage.step(["other"]).rows["other"].finished
    stage.abort("other")
    [unit], _ = run(stage, turn, first=1)

    assert num_errors(words(SENTENCES[2]), words(unit["text"])) <= 1


def test_a_wrong_guess_is_replaced_by_the_whole_turn(stage: WhisperStage) -> None:
    begin(stage)
    whole = spoken(SENTENCES[1])

    units, rows = run(
        stage,
        heard(whole[: len(whole) // 2], "guess", guess=7),
        heard(whole, "stopped", guess=9),
    )

    assert [row.end_position for row in rows] == [1], "the guess was recognised for nothing"
    assert num_errors(words(SENTENCES[1]), words(units[0]["text"])) <= 1


def test_a_guess_that_a_replay_has_lost_is_recognised_from_its_turn(stage: WhisperStage) -> None:
    begin(stage, first_unit=1)
    stage.update(StageUpdate("r", 1, heard(spoken(SENTENCES[0]), "stopped", guess=7), final=True))

    output = stage.step(["r"])
    stage.abort("r")

    assert output.multimodal_outputs["transcript"][0]["text"]


@pytest.mark.parametrize(
    ("prompt", "param"),
    [
        ({"task": "translate"}, "model"),
        ({"language": "de"}, "language"),
        ({"languages": ["de", "fr"]}, "languages"),
    ],
)
def test_what_an_english_model_cannot_do_is_refused(
    stage: WhisperStage, prompt: dict[str, Any], param: str
) -> None:
    begin(stage)

    with pytest.raises(InvalidRequestError, match="English only") as caught:
        stage.update(StageUpdate("r", 0, heard(None, "silence", **prompt)))
    stage.abort("r")

    assert caught.value.param == param


def test_noise_becomes_few_words_in_bounded_time(stage: WhisperStage) -> None:
    begin(stage)

    units, _ = run(stage, heard(noise(5.0)))

    assert len(words(units[0]["text"])) <= 5


def test_a_context_and_keywords_do_not_end_up_in_the_text(stage: WhisperStage) -> None:
    begin(stage)
    options: dict[str, Any] = {
        "context": "A talk about travelling by rail. " * 100,
        "keywords": ["Voxloom"],
    }

    [unit], _ = run(stage, heard(spoken(SENTENCES[0]), **options))

    assert num_errors(words(SENTENCES[0]), words(unit["text"])) <= 1


def test_temperatures_rise_from_the_given_one() -> None:
    assert Recognition().temperatures == [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert Recognition(temperature=0.5).temperatures == [0.5, 0.7, 0.9]
    assert Recognition(temperature=1.0).temperatures == [1.0]


def test_weights_that_are_not_there_are_named() -> None:
    with pytest.raises(ConfigError, match=r"weights: cannot load '/nowhere/model'"):
        Recogniser(WhisperOptions(weights="/nowhere/model"), num_workers=1)


def test_an_unknown_option_is_refused() -> None:
    pipeline = load_pipeline("transcribe")
    stage = msgspec.structs.replace(pipeline.stages[1], options={"beams": 5})

    with pytest.raises(ConfigError, match=r"unknown field `beams`.*known: weights, device"):
        load(StageContext(pipeline, stage, 1))


@pytest.mark.parametrize("languages", [["en", "de"], ["english"], "en"])
def test_languages_that_the_weights_do_not_know_are_not_promised(languages: Any) -> None:
    pipeline = msgspec.structs.replace(
        load_pipeline("transcribe"), options={"languages": languages}
    )

    with pytest.raises(ConfigError, match=r"languages must be a list of codes .* know, en, got"):
        load(StageContext(pipeline, pipeline.stages[1], 1))


def test_times_never_leave_the_audio(stage: WhisperStage) -> None:
    begin(stage)
    cut = spoken(SENTENCES[0])[: int(1.7 * RATE)]

    [unit], _ = run(stage, heard(np.ascontiguousarray(cut), word_times=True))

    assert max(s["end"] for s in unit["segments"]) <= 1.7


def test_a_short_tail_costs_no_word() -> None:
    recogniser = Recogniser(WhisperOptions(beam_size=1, tail_s=5.0), num_workers=1)

    for text in SENTENCES:
        found = recogniser.recognise(spoken(text), Recognition(word_times=True), 0.0)
        said = "".join(segment["text"] for segment in found.segments)
        assert num_errors(words(text), words(said)) <= 1
        assert all(segment["words"] for segment in found.segments)
    assert not recogniser.recognise(noise(2.0), Recognition(), 0.0, is_speech=False).segments


def heard_frames(recogniser: Recogniser) -> list[int]:
    """How many frames the network hears each time, from now on."""
    frames, model = list[int](), recogniser._model
    encode = model.encode

    def counting(features: Any) -> Any:
        frames.append(features.shape[-1])
        return encode(features)

    model.encode = counting
    return frames


def test_speech_without_a_word_is_heard_again_with_the_whole_window() -> None:
    recogniser = Recogniser(WhisperOptions(beam_size=1, tail_s=5.0), num_workers=1)
    frames = heard_frames(recogniser)

    recogniser.recognise(noise(2.0), Recognition(), 0.0, is_speech=False)
    assert frames == [1000]
    recogniser.recognise(noise(2.0), Recognition(), 0.0, is_speech=True)
    assert frames == [1000, 1000, 3000]
    recogniser.recognise(spoken(SENTENCES[0]), Recognition(), 0.0, is_speech=True)
    assert frames[3:] == [1000]


def test_a_recognition_ends_where_nobody_wants_its_words() -> None:
    recogniser = Recogniser(WhisperOptions(beam_size=1, tail_s=5.0), num_workers=1)
    num_asked = 0

    def ask(limit: int) -> None:
        nonlocal num_asked
        num_asked = 0

        def is_wanted() -> bool:
            nonlocal num_asked
            num_asked += 1
            return num_asked <= limit

        audio = spoken(SENTENCES[0])
        assert recogniser.recognise(audio, Recognition(), 0.0, is_wanted=is_wanted).segments

    ask(limit=1000)
    for limit in range(num_asked):
        with pytest.raises(RecognitionStoppedError):
            ask(limit)
        assert num_asked == limit + 1


def test_a_request_that_is_abandoned_in_its_step_gets_no_words() -> None:
    recogniser = Recogniser(WhisperOptions(beam_size=1), num_workers=1)
    stage = WhisperStage(recogniser)
    encode = recogniser._model.encode

    def hear_and_leave(features: Any) -> Any:
        stage.abandon("r")
        return encode(features)

    begin(stage)
    recogniser._model.encode = hear_and_leave
    units, _ = run(stage, heard(spoken(SENTENCES[0])))
    assert units == []


@pytest.mark.parametrize(
    ("num_sounding", "expected"), [(0, 1000), (400, 1000), (501, 1002), (1200, 1700), (2900, 3000)]
)
def test_what_was_added_to_a_chunk_is_cut_to_the_tail(num_sounding: int, expected: int) -> None:
    features = np.zeros((80, 3000), np.float32)
    features[3:, :num_sounding] = -0.5

    cut = trim_tail(features, 500)

    assert cut.shape == (80, expected)
    assert np.array_equal(cut, features[:, :expected])


def test_a_tail_in_which_no_end_can_be_found_is_refused() -> None:
    pipeline = load_pipeline("transcribe")
    stage = msgspec.structs.replace(pipeline.stages[1], options={"tail_s": 1.0})

    with pytest.raises(ConfigError, match="tail_s must be at least 5, or null"):
        load(StageContext(pipeline, stage, 1))
