"""The language-model stage's side of the model: passages of a text, and what a stream may be."""

from __future__ import annotations

import functools
import math
from typing import Any

import msgspec
import numpy as np
import pytest

from engine.errors import InvalidRequestError, StageFailedError
from engine.messages import Payload, SamplingParams, StageInteraction, StageRequest, StageUpdate
from tests.worker.models.lm_codec.checkpoints import outetts_tokenizer
from worker.models.lm_codec.adapter import NULL_ROLE, transform_prompt
from worker.models.lm_codec.description import Description, Slot, load_description
from worker.models.lm_codec.lm import CodecLm, CodecPassages, CodecSink
from worker.models.lm_codec.prompts import PromptBuilder
from worker.models.lm_codec.texts import TextPiece
from worker.models.lm_codec.units import unpack_windows
from worker.vllm.adapter import Burst, Passage

pytestmark = pytest.mark.torch

NAME = "outetts-0.6b"
TEXT = "One two three. Four!"


def describe(**changes: Any) -> Description:
    """OuteTTS, of whose tokenizer the tests have a small one, with the strictness of the others."""
    spec = load_description(NAME)
    frame = tuple(Slot(book, f"<|c{book + 1}_0|>") for book in range(2))
    tokens = msgspec.structs.replace(spec.tokens, frame=frame, others="error", overhead=1.0)
    return msgspec.structs.replace(spec, tokens=tokens, **changes)


@functools.cache
def model(max_chars: int = 400) -> CodecLm:
    lengths = msgspec.structs.replace(describe().lengths, max_chars=max_chars)
    spec = describe(lengths=lengths)
    builder = PromptBuilder.load(NAME, spec, str(outetts_tokenizer()))
    return CodecLm(spec, builder, outetts_tokenizer())


def request(text: str = TEXT, *, resumable: bool = False, **options: Any) -> StageRequest:
    prompt = transform_prompt({"text": text, "resumable": resumable}, NAME)
    sampling = options.pop("sampling", SamplingParams())
    return StageRequest("r", prompt, sampling, 7, resumable=resumable, **options)


def passages(source: CodecPassages) -> list[Passage]:
    found = []
    while (passage := source.take()) is not None:
        found.append(passage)
    return found


def told(passage: Passage) -> TextPiece:
    assert isinstance(passage.sink, CodecSink)
    return passage.sink._piece


def test_a_text_is_said_in_passages_that_are_numbered_and_bounded() -> None:
    lm = model(16)
    source = lm.open(request(), {})
    assert not source.is_empty
    first, second = passages(source)
    assert source.is_empty
    assert (first.number, second.number) == (0, 1)
    written = "<|im_start|>\n<|text_start|>{}<|text_end|>\n<|audio_start|>\n"
    prompts = [row.prompt_token_ids for passage in (first, second) for row in passage.rows]
    tokenizer = lm._builder._control
    for prompt, text in zip(prompts, ("One two three.", "Four!"), strict=True):
        assert prompt == tokenizer.encode(written.format(text), add_special_tokens=False).ids
    # 14 characters may take 3000 + 14 * 160 ms, that is 393 frames of two tokens; and a stop.
    assert first.sampling.max_tokens == 2 * 393 + 1
    assert first.sampling.stop_token_ids == lm._builder.stop_token_ids
    assert (first.sampling.temperature, first.sampling.min_p) == (0.4, 0.05)


@pytest.mark.parametrize(("text", "num_letters"), [("5550199", 28), ("今天天气很好", 18)])
def test_speech_may_be_as_long_as_digits_and_wide_letters_take_to_say(
    text: str, num_letters: int
) -> None:
    (passage,) = passages(model().open(request(text), {}))
    num_frames = math.ceil((3000 + 160 * num_letters) * 24000 / 320 / 1000)
    assert passage.sampling.max_tokens == 2 * num_frames + 1


def test_a_request_that_takes_segments_says_what_each_completes() -> None:
    source = model().open(request("One two. Th", resumable=True), {})
    assert [len(p.rows) for p in passages(source)] == [1]
    assert not source.is_empty
    source.update(StageUpdate("r", 1, {"text": "ree four", "text_offset": 11}))
    assert passages(source) == []
    source.interact(StageInteraction("r", 2, "flush"))
    [passage] = passages(source)
    assert source.is_empty
    assert passage.number == 1
    assert told(passage).span.start == 9
    source.update(StageUpdate("r", 3, {"text": " End", "text_offset": 19}, final=True))
    assert [p.number for p in passages(source)] == [2]


def test_an_update_of_the_voice_is_for_the_text_behind_it() -> None:
    source = model().open(request("Before", resumable=True), {})
    changed = transform_prompt({"text": "", "resumable": True}, NAME) | {"fields": {"mood": "x"}}
    source.interact(StageInteraction("r", 1, "update", changed))
    source.update(StageUpdate("r", 2, {"text": "After.", "text_offset": 6}, final=True))
    assert [told(p).text for p in passages(source)] == ["Before", "After."]


def test_a_replay_numbers_its_passages_on() -> None:
    source = model(16).open(request(first_passage=3), {})
    assert [p.number for p in passages(source)] == [3, 4]
    later = model().open(request(resumable=True, first_unit=2, first_passage=3), {})
    assert later.is_empty, "what was in the prompt is done with"


def test_a_long_text_starts_before_all_of_it_is_read() -> None:
    source = model().open(request("Some words of a book. " * 2000), {})
    first = source.take()
    assert first is not None
    assert len(source._inputs) > 5


def test_a_guided_request_has_a_row_for_its_companion_and_no_penalties() -> None:
    lm = model()
    asked = SamplingParams(guidance_scale=3.0)
    companion = {NULL_ROLE: request(sampling=asked)}
    [passage] = passages(lm.open(request(sampling=asked), companion))
    assert [row.role for row in passage.rows] == [None, NULL_ROLE]
    assert passage.guidance_scale == 3.0
    assert len(passage.rows[1].prompt_token_ids) < len(passage.rows[0].prompt_token_ids)
    penalised = SamplingParams(guidance_scale=3.0, extra={"repetition_penalty": 1.2})
    with pytest.raises(InvalidRequestError) as caught:
        lm.open(request(sampling=penalised), companion)
    assert caught.value.param == "repetition_penalty"


def test_a_guided_request_without_companion_makes_the_null_row_itself() -> None:
    """Its text comes in segments, or it ends with the language model's stage."""
    lm, asked = model(16), SamplingParams(guidance_scale=3.0)
    source = lm.open(request("One two three. F", resumable=True, sampling=asked), {})
    source.update(StageUpdate("r", 1, {"text": "our!", "text_offset": 16}, final=True))
    guided = [*passages(source), *passages(lm.open(request(sampling=asked), {}))]
    with_companion = passages(lm.open(request(sampling=asked), {NULL_ROLE: request()}))
    assert [p.rows for p in guided] == [p.rows for p in with_companion] * 2
    assert {p.guidance_scale for p in guided} == {3.0}


def test_a_model_without_null_prompt_refuses_guidance_of_any_request() -> None:
    lm = CodecLm(describe(guidance=None), model()._builder, outetts_tokenizer())
    with pytest.raises(InvalidRequestError, match="has no null prompt") as caught:
        lm.open(request(sampling=SamplingParams(guidance_scale=3.0)), {})
    assert caught.value.param == "guidance_scale"


@pytest.mark.parametrize(
    "extra",
    [
        {"stop": "end"},
        {"stop_token_ids": [7]},
        {"ignore_eos": True},
        {"allowed_token_ids": [300]},
    ],
)
def test_what_the_description_owns_is_refused_by_name(extra: dict[str, Any]) -> None:
    [name] = extra
    with pytest.raises(InvalidRequestError, match=f"{name} cannot be set") as caught:
        model().open(request(sampling=SamplingParams(extra=extra)), {})
    assert caught.value.param == name


def test_penalties_of_the_model_are_left_out_with_guidance() -> None:
    sampling = SamplingParams(extra={"repetition_penalty": 1.3})
    spec = describe(sampling=sampling)
    lm = CodecLm(spec, model()._builder, outetts_tokenizer())
    [alone] = passages(lm.open(request(), {}))
    asked = request(sampling=SamplingParams(guidance_scale=2.0))
    [guided] = passages(lm.open(asked, {NULL_ROLE: asked}))
    assert alone.sampling.repetition_penalty == 1.3
    assert guided.sampling.repetition_penalty == 1.0


# --- streams -------------------------------------------------------------------------------------


def tokens_of(num_frames: int) -> list[int]:
    codes = np.arange(2 * num_frames, dtype=np.int32).reshape(num_frames, 2) % 1024
    return model()._builder.layout.token_ids(codes)


def feed(tokens: list[int], reason: Any, size: int = 3) -> list[Payload]:
    [passage] = passages(model().open(request(), {}))
    found, bursts = [], [tokens[i : i + size] for i in range(0, len(tokens), size)]
    for number, burst in enumerate(bursts):
        is_last = number == len(bursts) - 1
        payload = passage.sink.feed(Burst(0, burst, finish_reason=reason if is_last else None))
        if payload is not None:
            found.append(payload)
    return found


def stop_token() -> int:
    return model()._builder.stop_token_ids[0]


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_all_frames_of_a_stream_leave_in_windows_however_they_come(size: int) -> None:
    units = feed([*tokens_of(90), stop_token()], "stop", size)
    windows = [w for unit in units for w in unpack_windows(unit["unit"])]
    cores = [w.codes[w.num_left : w.num_left + w.num_core] for w in windows]
    assert np.array_equal(np.concatenate(cores).ravel(), np.arange(180))
    assert [w.is_last for w in windows] == [False] * (len(windows) - 1) + [True]
    assert {unit["unit"]["seed"] for unit in units} == {units[0]["unit"]["seed"]}
    assert units[0]["unit"]["span"] == [0, len(TEXT)]
    if size == 1:
        assert len(units) == len(windows), "a window leaves as soon as it is whole"


@pytest.mark.parametrize(
    ("tokens", "reason", "message"),
    [
        (lambda: [*tokens_of(90), stop_token()], "length", "the model did not stop"),
        (lambda: [stop_token()], "stop", "stopped early: 0 frames"),
        (lambda: [*tokens_of(5), stop_token()], "stop", "stopped early: 5 frames for 20 char"),
        (lambda: [*tokens_of(90)[:-1], stop_token()], "stop", "stopped within frame 89"),
        (lambda: [*tokens_of(9), 65, stop_token()], "stop", "said token 65 in frame 9"),
    ],
)
def test_a_stream_that_is_no_speech_is_an_error(tokens: Any, reason: Any, message: str) -> None:
    with pytest.raises(StageFailedError, match=message):
        feed(tokens(), reason)


def test_an_unknown_companion_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="unknown companion role 'other'"):
        model().open(request(), {"other": request()})
