"""Each position is told once, to its end, however tokens are cut into bursts or given back."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.errors import InvalidRequestError
from engine.messages import SamplingParams, StageRequest, StageUpdate
from tests.worker.models.qwen_omni.noises import message
from tests.worker.models.qwen_omni.tiny_omni import write_qwen25
from worker.models.qwen_omni.sounds import KEY as SOUNDS_KEY
from worker.models.qwen_omni.sounds import pack_sounds
from worker.models.qwen_omni.thinker import OmniAdapter, OmniSink, ThinkerOptions, read_facts
from worker.models.qwen_omni.thought import Thought, read_thought
from worker.vllm.adapter import Burst, Embedded, Passage, Row
from worker.vllm.states import Floats, States
from worker.vllm.token_engine import NewTokens

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("default")]

WIDTH = 2
PROMPT = [5, 259, 259, 6]
ANSWER = [40, 41, 42, 43]
NUM_PROMPT = len(PROMPT)


@pytest.fixture(scope="module")
def adapter(tmp_path_factory: pytest.TempPathFactory) -> OmniAdapter:
    from transformers import AutoTokenizer

    folder = write_qwen25(Path(tmp_path_factory.mktemp("omni")))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    options = ThinkerOptions(system="Be kind.", tool_format="none")
    return OmniAdapter(tokenizer, options, read_facts(str(folder)))


def states(first: int, end: int) -> States:
    """Of the positions from ``first`` to before ``end``."""
    places = np.arange(first, end, dtype=np.float32)[:, None] + np.zeros(WIDTH, np.float32)
    return States(first, places, -places)


def sink_of(adapter: OmniAdapter) -> OmniSink:
    sound: Floats = np.zeros((2, WIDTH), np.float32)
    row = Row(None, PROMPT, Embedded(np.array([1, 2], np.int64), sound))
    return OmniSink(adapter, row, "")


def feed(sink: OmniSink, *bursts: Burst) -> list[Thought]:
    told = [sink.feed(burst) for burst in bursts]
    found = [read_thought(payload, WIDTH) for payload in told if payload is not None]
    return [thought for thought in found if thought is not None]


def check(thoughts: list[Thought], first: int) -> None:
    """All positions from ``first`` on, once and in order."""
    ids = np.concatenate([thought.token_ids for thought in thoughts])
    assert ids.tolist() == (PROMPT + ANSWER)[first : NUM_PROMPT + len(ANSWER) - 1]
    places = np.concatenate([thought.embeddings for thought in thoughts])[:, 0]
    assert places.tolist() == list(range(first, NUM_PROMPT + len(ANSWER) - 1))
    assert [thought.is_last for thought in thoughts] == [False] * (len(thoughts) - 1) + [True]


def test_the_prompt_comes_first_with_its_sounds_marked_and_then_each_token(
    adapter: OmniAdapter,
) -> None:
    thoughts = feed(
        sink_of(adapter),
        Burst(0, ANSWER[:1], "a", states=states(0, NUM_PROMPT)),
        Burst(1, ANSWER[1:3], "bc", states=states(NUM_PROMPT, NUM_PROMPT + 2)),
        Burst(3, ANSWER[3:], "d", "stop", states(NUM_PROMPT + 2, NUM_PROMPT + 3)),
    )
    check(thoughts, 0)
    assert [thought.is_prompt for thought in thoughts] == [True, False, False]
    assert thoughts[0].multimodal.tolist() == [False, True, True, False]
    assert not any(thought.multimodal.any() for thought in thoughts[1:])


@pytest.mark.parametrize("num_had", [1, 2, 3])
def test_a_replay_tells_only_what_had_not_come_through(adapter: OmniAdapter, num_had: int) -> None:
    """vLLM reads prompt and prefix anew; what was told of them is not told again."""
    told = NUM_PROMPT + num_had - 1
    read = NUM_PROMPT + num_had
    thoughts = feed(
        sink_of(adapter),
        Burst(0, ANSWER[:num_had]),
        Burst(num_had, ANSWER[num_had : num_had + 1], "x", states=states(0, read)),
        Burst(num_had + 1, ANSWER[num_had + 1 :], "y", "stop", states(read, NUM_PROMPT + 3)),
    )
    check(thoughts, told)
    assert not any(thought.is_prompt for thought in thoughts)


def test_first_tokens_that_come_together_are_told_apart(adapter: OmniAdapter) -> None:
    new = NewTokens(ANSWER, "abcd", "stop", states(0, NUM_PROMPT + 3))
    first, rest = new.split(NUM_PROMPT)
    assert (first.text + rest.text, first.finish_reason, rest.finish_reason) == (
        "abcd",
        None,
        "stop",
    )
    thoughts = feed(
        sink_of(adapter),
        Burst(0, first.token_ids, first.text, first.finish_reason, first.states),
        Burst(1, rest.token_ids, rest.text, rest.finish_reason, rest.states),
    )
    check(thoughts, 0)
    assert [thought.num_rows for thought in thoughts] == [NUM_PROMPT, 3]


def open_passage(adapter: OmniAdapter, messages: list[Any], sounds: list[Floats]) -> Passage | None:
    request = StageRequest("r", {"messages": messages}, SamplingParams(), 0, resumable=True)
    source = adapter.open(request, {})
    assert source.take() is None, "nothing has been heard yet"
    source.update(StageUpdate("r", 0, {SOUNDS_KEY: pack_sounds(sounds)}))
    assert source.take() is None, "more may come"
    source.update(StageUpdate("r", 1, {}, final=True))
    return source.take()


def test_a_sound_takes_as_many_places_as_it_has_embeddings(adapter: OmniAdapter) -> None:
    sounds: list[Floats] = [np.full((size, WIDTH), size, np.float32) for size in (3, 5)]
    passage = open_passage(adapter, message("a", None, "b", None), sounds)
    assert passage is not None
    (row,) = passage.rows
    assert row.embedded is not None
    ids = np.array(row.prompt_token_ids)
    assert (ids == adapter.facts.audio_token).sum() == 8
    assert (ids[row.embedded.positions] == adapter.facts.audio_token).all()
    assert row.embedded.embeddings[:, 0].tolist() == [3.0] * 3 + [5.0] * 5
    assert adapter.facts.stop_tokens == passage.sampling.stop_token_ids
    assert "Be kind." in adapter.decode(row.prompt_token_ids)


def test_a_sound_without_a_place_is_refused(adapter: OmniAdapter) -> None:
    with pytest.raises(InvalidRequestError, match="no place"):
        open_passage(adapter, message("a"), [np.zeros((3, WIDTH), np.float32)])


CALL = '<tool_call>\n{"name": "wait", "arguments": {}}\n</tool_call>'


def told_ids(thoughts: list[Thought]) -> list[int]:
    return [int(token) for thought in thoughts for token in thought.token_ids]


def tokens_of(adapter: OmniAdapter, text: str) -> list[int]:
    """A byte each, and none for the control tokens, which no text here has."""
    tokens = [token for token in range(256) if adapter.decode([token])]
    by_text = {adapter.decode([token]): token for token in tokens}
    return [by_text[char] for char in text]


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_call_that_the_prompt_begins_is_not_said(adapter: OmniAdapter, size: int) -> None:
    begun, rest = CALL[: CALL.index("{")], CALL[CALL.index("{") :]
    head, tail = PROMPT[:1] + PROMPT[3:], tokens_of(adapter, begun)
    written = tokens_of(adapter, rest)
    sink = OmniSink(adapter, Row(None, head + tail), begun)
    payloads = [sink.feed(burst) for burst in bursts(head + tail, written, rest, size)]
    thoughts = [read_thought(payload, WIDTH) for payload in payloads if payload is not None]
    assert told_ids([thought for thought in thoughts if thought is not None]) == head
    assert thoughts[-1] is not None
    assert thoughts[-1].is_last
    calls = [call for payload in payloads if payload for call in payload["thought"]["calls"]]
    assert [call["name"] for call in calls] == ["wait"]


@pytest.mark.parametrize("size", [1, 1000])
def test_what_is_written_before_a_call_is_said(adapter: OmniAdapter, size: int) -> None:
    """The talker may hear the beginning of a tag that is no token of its own."""
    text = f"Wait.{CALL} And more."
    written = tokens_of(adapter, text)
    sink = OmniSink(adapter, Row(None, PROMPT), "")
    payloads = [sink.feed(burst) for burst in bursts(PROMPT, written, text, size)]
    thoughts = [read_thought(payload, WIDTH) for payload in payloads if payload is not None]
    told = told_ids([thought for thought in thoughts if thought is not None])
    said = adapter.decode(told[NUM_PROMPT:])
    assert said.startswith("Wait.")
    assert "<tool_call>".startswith(said.removeprefix("Wait."))
    assert "".join(p["thought"]["delta"] for p in payloads if p) == "Wait. And more."


def bursts(prompt: list[int], written: list[int], text: str, size: int) -> list[Burst]:
    """Answer tokens so many at a time: the first alone, each with the states of those before."""
    edges = sorted({0, 1, *range(1, len(written), size), len(written)})
    found = []
    for first, end in itertools.pairwise(edges):
        begin = len(prompt) + first - 1 if first else 0
        held = states(begin, len(prompt) + end - 1)
        burst = Burst(first, written[first:end], text[first:end], states=held)
        found.append(replace(burst, finish_reason="stop") if end == len(written) else burst)
    return found
