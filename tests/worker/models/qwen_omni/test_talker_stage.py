"""The talker stage says what transformers says, whoever else speaks and however text comes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from engine.errors import ConfigError, InvalidRequestError, StageFailedError
from engine.messages import SamplingParams, StageUpdate
from tests.worker.models.qwen_omni import small_qwen2_5, sounds, talking
from tests.worker.models.qwen_omni.talking import (
    Said,
    at_once,
    in_bursts,
    one_by_one,
    request,
    step,
)
from tests.worker.models.qwen_omni.thinking import Sender, payload, start, think
from worker.models.qwen_omni.codes import Codes
from worker.models.qwen_omni.talker_stage import TalkerStage, load
from worker.models.qwen_omni.thought import Thought
from worker.stage_model import RowStatus, StageContext

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("default")]

# Tokens of the prompt, and of the answer; the last prompt has a sound behind its words.
TALKS = {"a": (6, 3), "b": (11, 9), "c": (5, 14), "d": (9, 5), "e": (8, 6), "f": (7, 8)}


def context(**options: Any) -> StageContext:
    return talking.context("qwen2.5", small_qwen2_5.checkpoint(), **options)


@pytest.fixture(scope="module")
def stage() -> TalkerStage:
    return load(context())


def prompt_of(name: str) -> torch.Tensor:
    num_tokens = TALKS[name][0]
    generator = torch.Generator().manual_seed(num_tokens)
    words = torch.randint(0, 270, (1, num_tokens), generator=generator)
    return words if name != "f" else sounds.with_sound(words, small_qwen2_5.AUDIO, 10)


def heard_in(name: str) -> dict[str, torch.Tensor]:
    return {} if name != "f" else sounds.features()


@functools.cache
def thoughts_of(name: str) -> list[Thought]:
    thinker = small_qwen2_5.reference().thinker
    return think(thinker, prompt_of(name), TALKS[name][1], layer=-1, **heard_in(name))


@functools.cache
def codes_of(name: str) -> tuple[int, ...]:
    """What transformers says, greedily, without the code that ends it.

    Behind a token of padding: without any, transformers 5.19 drops the mask, and with it the codes
    that the talker's first two positions read beside their text.
    """
    model = small_qwen2_5.reference()
    heard: list[torch.Tensor] = []

    def hear(_: Any, given: tuple[torch.Tensor, ...], __: dict[str, Any]) -> None:
        heard.append(given[0][0])

    hook = model.token2wav.register_forward_pre_hook(hear, with_kwargs=True)
    try:
        model.generate(
            input_ids=torch.nn.functional.pad(prompt_of(name), (1, 0)),
            attention_mask=torch.nn.functional.pad(torch.ones_like(prompt_of(name)), (1, 0)),
            speaker="Ethan",
            thinker_max_new_tokens=TALKS[name][1],
            thinker_do_sample=False,
            talker_do_sample=False,
            talker_eos_token_id=[small_qwen2_5.CODE_PAD, small_qwen2_5.CODE_END],
            talker_repetition_penalty=small_qwen2_5.SAMPLING["talker_repetition_penalty"],
            talker_max_new_tokens=60,
            token2wav_num_steps=2,
            **heard_in(name),
        )
    finally:
        hook.remove()
    return tuple(heard[0].tolist())


def speak(stage: TalkerStage, sender: Sender, feed: Callable[[Sender], None]) -> tuple[int, ...]:
    return flat([talking.speak(stage, sender, feed)])


def flat(units: list[Codes]) -> tuple[int, ...]:
    return tuple(int(code) for code in np.concatenate(units)[:, 0])


@pytest.mark.parametrize("feed", [one_by_one, in_bursts, at_once])
@pytest.mark.parametrize("name", list(TALKS))
def test_greedy_codes_are_those_of_transformers(
    stage: TalkerStage, name: str, feed: Callable[[Sender], None]
) -> None:
    sender = start(stage, request(name), thoughts_of(name))
    assert speak(stage, sender, feed) == codes_of(name)
    assert stage.num_requests == 0
    assert stage.pool.num_free_tokens == stage.pool.num_tokens


def test_requests_that_come_and_go_at_different_times_do_not_mix(stage: TalkerStage) -> None:
    """Each joins two steps after the one before, and gets its text at its own pace."""
    senders: dict[str, Sender] = {}
    said: Said = {}
    largest = 0
    waiting, number = list(TALKS), 0
    while waiting or stage.num_requests:
        if waiting and number % 2 == 0:
            name = waiting.pop(0)
            senders[name] = start(stage, request(name), thoughts_of(name))
        for place, sender in enumerate(senders.values()):
            if not sender.is_done:
                sender.send(1 + (number + place) % 3)
        largest = max(largest, len(step(stage, list(senders), said)))
        number += 1
    assert largest >= 3
    assert {name: flat(units) for name, units in said.items()} == {n: codes_of(n) for n in TALKS}


def test_it_waits_for_text_and_not_longer(stage: TalkerStage) -> None:
    thoughts = thoughts_of("b")
    sender = start(stage, request("b"), thoughts)
    assert not stage.has_work("b")
    sender._update(thoughts[0])
    sender.num_sent = 1
    assert not stage.has_work("b"), "the prompt alone says nothing"
    said: Said = {}
    for number in range(1, 4):
        sender.send(1)
        assert stage.has_work("b")
        step(stage, ["b"], said)
        assert not stage.has_work("b")
        assert len(said["b"]) == number
    stage.abort("b")


def test_an_abort_frees_its_memory_at_once_and_harms_nobody(stage: TalkerStage) -> None:
    said: Said = {}
    for name in ("b", "c"):
        start(stage, request(name), thoughts_of(name)).send()
    for _ in range(4):
        step(stage, ["b", "c"], said)
    free = stage.pool.num_free_tokens
    stage.abort("b")
    assert stage.pool.num_free_tokens > free
    while stage.num_requests:
        step(stage, ["c"], said)
    assert flat(said["c"]) == codes_of("c")
    assert stage.pool.num_free_tokens == stage.pool.num_tokens


def test_without_room_a_request_waits_until_another_has_ended() -> None:
    context_of_one = context()
    stage = load(context_of_one)
    stage.pool._free = stage.pool._free[: -(-(11 + 2 + 120) // 64)]
    told: list[str] = []
    context_of_one.readiness.connect(told.append)
    for name in ("b", "c", "d"):
        start(stage, request(name), thoughts_of(name)).send()
    assert [stage.has_work(name) for name in "bcd"] == [True, False, False]
    said: Said = {}
    while not told:
        step(stage, ["b", "c", "d"], said)
    assert told == ["c"]
    stage.abort("c")
    assert told == ["c", "d"]
    while stage.num_requests:
        step(stage, ["d"], said)
    assert flat(said["d"]) == codes_of("d")


def test_what_can_never_fit_is_refused() -> None:
    stage = load(context())
    stage.pool._free.clear()
    stage.pool.keys = stage.pool.keys[:, :64]
    sender = start(stage, request("a"), thoughts_of("a"))
    with pytest.raises(StageFailedError, match="may take 128 positions, and it has room for 64"):
        sender.send()


def test_a_speech_that_does_not_end_is_an_error() -> None:
    stage = load(context(slack_ms=0, max_ms_per_token=20))
    sender = start(stage, request("c"), thoughts_of("c"))
    with pytest.raises(StageFailedError, match="13 tokens of text may take no more than 13 frames"):
        speak(stage, sender, at_once)


def test_a_speech_that_ends_before_its_text_is_an_error(stage: TalkerStage) -> None:
    thoughts = thoughts_of("c")
    first = thoughts[1]
    silence = small_qwen2_5.reference().thinker.get_input_embeddings().weight.detach()
    pad = silence[small_qwen2_5.TEXT_PAD].numpy()
    rows = replace(first, embeddings=np.stack([pad] * 1), hidden=np.zeros_like(first.hidden))
    sender = start(stage, request("c"), [thoughts[0], *[rows] * 20, *thoughts[1:]])
    with pytest.raises(StageFailedError, match="stopped early"):
        speak(stage, sender, at_once)


def test_a_thinker_without_a_word_makes_no_speech(stage: TalkerStage) -> None:
    prompt = replace(thoughts_of("a")[0], is_last=True)
    sender = start(stage, request("a"), [prompt])
    sender.send()
    rows = step(stage, ["a"], {})
    assert rows["a"].finished
    assert rows["a"].end_position == 0
    assert stage.num_requests == 0


def bad_thoughts() -> dict[str, tuple[list[Any], str]]:
    prompt, *answer = thoughts_of("a")
    wide = replace(answer[0], hidden=np.zeros((1, 7), np.float32))
    doubles = replace(answer[0], embeddings=answer[0].embeddings.astype(np.float64))
    return {
        "width": ([prompt, wide], r"hidden must be float32 \[1, 32\], got float32 \[1, 7\]"),
        "dtype": ([prompt, doubles], r"embeddings must be float32"),
        "no prompt": ([replace(prompt, is_prompt=False)], "an answer before its prompt"),
        "two prompts": ([prompt, prompt], "its prompt twice"),
        "behind the end": ([prompt, answer[-1], answer[-1]], "go on behind the last"),
    }


@pytest.mark.parametrize("kind", list(bad_thoughts()))
def test_bad_thoughts_fail_their_request_alone(stage: TalkerStage, kind: str) -> None:
    thoughts, message = bad_thoughts()[kind]
    stage.add(request("bad"))
    good = start(stage, request("b"), thoughts_of("b"))
    *accepted, bad = [StageUpdate("bad", n, payload(thought)) for n, thought in enumerate(thoughts)]
    for update in accepted:
        stage.update(update)
    with pytest.raises(StageFailedError, match=message):
        stage.update(bad)
    stage.abort("bad")
    assert speak(stage, good, in_bursts) == codes_of("b")


def test_frames_leave_together_as_the_options_say_and_the_last_ones_at_the_end() -> None:
    stage = load(context(unit_frames=4))
    start(stage, request("c"), thoughts_of("c")).send()
    said: Said = {}
    rows: list[RowStatus] = []
    while stage.num_requests:
        rows += step(stage, ["c"], said).values()
    sizes = [len(unit) for unit in said["c"]]
    assert sizes[:-1] == [4] * (len(sizes) - 1)
    assert flat(said["c"]) == codes_of("c")
    assert rows[-1].finished
    assert rows[-1].end_position == len(sizes)


def test_a_replay_says_the_same_and_sends_only_what_is_new(stage: TalkerStage) -> None:
    asked = SamplingParams(temperature=1.0, seed=3)
    start(stage, request("b", sampling=asked), thoughts_of("b")).send()
    said: Said = {}
    while stage.num_requests:
        step(stage, ["b"], said)
    start(stage, request("b", sampling=asked, skip_position=3), thoughts_of("b")).send()
    again: Said = {}
    while stage.num_requests:
        step(stage, ["b"], again)
    assert flat(again["b"]) == flat(said["b"])[3:]


def test_what_is_drawn_follows_the_seed(stage: TalkerStage) -> None:
    def speech(seed: int) -> tuple[int, ...]:
        sampling = SamplingParams(temperature=1.0)
        sender = start(stage, request("b", sampling=sampling, seed=seed), thoughts_of("b"))
        return speak(stage, sender, at_once)

    assert speech(1) == speech(1)
    assert len({speech(seed) for seed in range(4)}) > 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prompt": {"voice": "Nobody"}}, "voice must be one of Chelsie, Ethan, got 'Nobody'"),
        ({"sampling": SamplingParams(temperature=3.0)}, "temperature must be from 0 to 2"),
        ({"sampling": SamplingParams(extra={"min_p": 0.5})}, "min_p is not a sampling parameter"),
        ({"sampling": SamplingParams(guidance_scale=2.0)}, "no guidance_scale"),
    ],
)
def test_wrong_requests_are_refused_by_name(
    stage: TalkerStage, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        stage.add(request("r", **changes))
    assert stage.num_requests == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"family": "qwen1"}, "family must be one of qwen2.5, qwen3, got 'qwen1'"),
        ({"dtype": "int8"}, "dtype must be auto, float32"),
        ({"unit_frames": 0}, "unit_frames must be at least 1"),
        ({"gpu_memory_fraction": 0}, "gpu_memory_fraction must be above 0 and at most 1, got 0"),
        ({"checkpoint": "/nowhere/at/all"}, "cannot load the talker of '/nowhere/at/all'"),
    ],
)
def test_wrong_options_say_what_is_wrong(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(context(**options))
