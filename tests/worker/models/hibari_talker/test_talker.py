"""Sentences become passages, tokens become pieces, and wrong streams of tokens become errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine.errors import InvalidRequestError, StageFailedError
from engine.messages import SamplingParams, StageInteraction, StageRequest, StageUpdate
from worker.models.hibari_talker.adapter import NULL_ROLE, transform_prompt
from worker.models.hibari_talker.pieces import piece_ends
from worker.models.hibari_talker.talker import PieceSink, TalkerAdapter, TalkerPassages
from worker.models.hibari_talker.tokens import NULL_STYLE, Style, prosody_token
from worker.vllm.adapter import Burst, FinishReason, Passage

pytestmark = pytest.mark.model

TEXT = "One is here. Two is there! Is three anywhere?"
TOKEN = prosody_token(3, 17)


@pytest.fixture(scope="module")
def adapter() -> TalkerAdapter:
    loaded = TalkerAdapter()
    loaded.warm_up()
    return loaded


def request(
    text: str, instructions: str | None = None, sampling: SamplingParams | None = None, **rest: Any
) -> StageRequest:
    prompt: dict[str, Any] = {"text": text, "instructions": instructions}
    if rest.get("resumable"):
        prompt["resumable"] = True
    return StageRequest("r", transform_prompt(prompt), sampling or SamplingParams(), 7, **rest)


def take_all(source: TalkerPassages) -> list[Passage]:
    return list(iter(source.take, None))


def num_phonemes(passage: Passage) -> int:
    return passage.sampling.max_tokens


def feed(sink: Any, count: int, *, burst: int = 1, position: int = 0) -> list[dict[str, Any]]:
    """The payloads for ``count`` tokens."""
    payloads = []
    for start in range(0, count, burst):
        size = min(burst, count - start)
        payloads.append(sink.feed(Burst(position + start, [TOKEN] * size)))
    return [payload for payload in payloads if payload is not None]


def test_each_sentence_is_a_passage_with_one_token_per_phoneme(adapter: TalkerAdapter) -> None:
    passages = take_all(adapter.open(request(TEXT), {}))
    assert [passage.number for passage in passages] == [0, 1, 2]
    for passage in passages:
        assert [row.role for row in passage.rows] == [None]
        assert passage.sampling.min_tokens == passage.sampling.max_tokens
        assert list(passage.rows[0].prompt_token_ids[-4:-1]) == Style().tokens
        assert set(passage.sampling.allowed_token_ids) >= {TOKEN}


def test_a_style_is_guided_by_a_row_without_one(adapter: TalkerAdapter) -> None:
    companion = StageRequest("r~null", {}, SamplingParams(), 7, role=NULL_ROLE)
    source = adapter.open(request("Hello.", "very slow"), {NULL_ROLE: companion})
    (passage,) = take_all(source)
    guided, free = (list(row.prompt_token_ids) for row in passage.rows)
    assert [row.role for row in passage.rows] == [None, NULL_ROLE]
    assert len(guided) == len(free)
    assert guided[-4:-1] == Style(rate=-2).tokens
    assert free[-4:-1] == NULL_STYLE
    assert guided[:-4] == free[:-4]
    assert passage.guidance_scale == 3.0


def test_a_companion_of_another_role_is_refused(adapter: TalkerAdapter) -> None:
    companion = StageRequest("x", {}, SamplingParams(), 7, role="other")
    with pytest.raises(StageFailedError, match="no companion of role 'other'"):
        adapter.open(request("Hello."), {"other": companion})


def test_sampling_is_what_the_client_asked_for(adapter: TalkerAdapter) -> None:
    asked = SamplingParams(temperature=0.0, top_k=5, top_p=0.5)
    (passage,) = take_all(adapter.open(request("Hello.", sampling=asked), {}))
    sampling = passage.sampling
    assert (sampling.temperature, sampling.top_k, sampling.top_p) == (0.0, 5, 0.5)


@pytest.mark.parametrize(
    ("name", "sampling"),
    [
        ("max_tokens", SamplingParams(max_tokens=5)),
        ("min_tokens", SamplingParams(extra={"min_tokens": 1})),
        ("stop_token_ids", SamplingParams(extra={"stop_token_ids": [300]})),
    ],
)
def test_what_would_change_the_number_of_tokens_is_refused(
    adapter: TalkerAdapter, name: str, sampling: SamplingParams
) -> None:
    with pytest.raises(InvalidRequestError, match=name):
        adapter.open(request(TEXT, sampling=sampling), {})


def test_nothing_to_say_is_refused(adapter: TalkerAdapter) -> None:
    source = adapter.open(request("Hello.", resumable=True), {})
    assert take_all(source) == []
    with pytest.raises(InvalidRequestError, match="nothing that can be spoken"):
        request("...")


def test_segments_flushes_and_voices_act_where_they_come(adapter: TalkerAdapter) -> None:
    source = adapter.open(request("One is here. Two ", resumable=True), {})
    assert len(take_all(source)) == 1
    assert not source.is_empty
    source.update(StageUpdate("r", 1, {"text": "is there", "text_offset": 17}))
    assert take_all(source) == []
    source.interact(StageInteraction("r", 2, "flush"))
    assert len(take_all(source)) == 1
    assert source.is_empty
    changed = transform_prompt({"text": "", "resumable": True, "instructions": "fast"})
    source.interact(StageInteraction("r", 3, "update", changed))
    source.update(StageUpdate("r", 4, {"text": "Three.", "text_offset": 25}, final=True))
    (last,) = take_all(source)
    assert [row.role for row in last.rows] == [None, NULL_ROLE]
    assert last.number == 2


def test_a_replay_goes_on_with_the_same_numbers(adapter: TalkerAdapter) -> None:
    whole = take_all(adapter.open(request("", resumable=True), {}))
    assert whole == []
    source = adapter.open(request("", resumable=True, first_unit=2, first_passage=5), {})
    source.update(StageUpdate("r", 2, {"text": "Six.", "text_offset": 0}, final=True))
    assert [passage.number for passage in take_all(source)] == [5]


@pytest.mark.parametrize("burst", [1, 5, 1000])
def test_pieces_hold_all_tokens_and_the_first_says_who_speaks(
    adapter: TalkerAdapter, burst: int
) -> None:
    text = "The quick brown fox jumps over the lazy dog, again and again."
    (passage,) = take_all(adapter.open(request(text), {}))
    count = num_phonemes(passage)
    payloads = feed(passage.sink, count, burst=burst)
    assert sum(payload["tokens"].size for payload in payloads) == count
    assert [("unit" in payload) for payload in payloads] == [True] + [False] * (len(payloads) - 1)
    unit = payloads[0]["unit"]
    assert unit["begins"]
    assert unit["ids"].size == count
    assert unit["words"][0][2:] == (0, 3)
    if burst == 1:
        ends = np.cumsum([payload["tokens"].size for payload in payloads]).tolist()
        assert ends == list(piece_ends(count))


def test_speech_begins_where_the_request_was_cut(adapter: TalkerAdapter) -> None:
    first, second, _ = take_all(adapter.open(request(TEXT, cut_position=12), {}))
    assert not feed(first.sink, num_phonemes(first))[0]["unit"]["begins"]
    again = feed(second.sink, num_phonemes(second), position=12)
    assert again[0]["unit"]["begins"]


@pytest.mark.parametrize(
    ("tokens", "reason", "message"),
    [
        ([TOKEN] * 4, "length", "ended after 4 of 5 tokens"),
        ([TOKEN] * 3, "stop", "ended after 3 of 5 tokens"),
        ([TOKEN] * 6, None, "6 tokens for 5 phonemes"),
        ([TOKEN, 17], None, "wrote 17, which is no prosody token"),
    ],
)
def test_a_wrong_stream_of_tokens_is_an_error(
    tokens: list[int], reason: FinishReason | None, message: str
) -> None:
    sink = PieceSink({"ids": np.arange(5)}, 0)
    with pytest.raises(StageFailedError, match=message):
        sink.feed(Burst(0, tokens, finish_reason=reason))


def test_what_is_skipped_behind_the_last_sound_is_told_at_the_end(adapter: TalkerAdapter) -> None:
    source = adapter.open(request("One. ", resumable=True), {})
    source.update(StageUpdate("r", 1, {"text": "中中", "text_offset": 5}, final=True))
    assert len(take_all(source)) == 1
    assert source.closing() == {"unit": {"warnings": ("skipped 2 characters of Han script",)}}


def test_nothing_is_told_at_the_end_of_a_text_that_was_spoken_whole(adapter: TalkerAdapter) -> None:
    source = adapter.open(request(TEXT), {})
    take_all(source)
    assert source.closing() is None
