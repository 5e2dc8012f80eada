"""Qwen3's talker in the stage: all codes of a frame are those of transformers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from engine.errors import InvalidRequestError, StageFailedError
from tests.worker.models.qwen_omni import small_qwen3, sounds
from tests.worker.models.qwen_omni.references import PENALTY_OF_CODES
from tests.worker.models.qwen_omni.talking import (
    Said,
    at_once,
    context,
    in_bursts,
    one_by_one,
    request,
    speak,
    step,
)
from tests.worker.models.qwen_omni.thinking import Sender, start, think
from worker.models.qwen_omni.talker_stage import TalkerStage, load
from worker.models.qwen_omni.thought import Thought

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("default", PENALTY_OF_CODES)]

# Tokens of what the user said, and of the answer; the last user made a sound besides.
TALKS = {"a": (3, 3), "b": (8, 9), "c": (5, 14), "d": (9, 6), "e": (4, 7)}
Frames = list[list[int]]


@pytest.fixture(scope="module")
def stage() -> TalkerStage:
    return load(context("qwen3", small_qwen3.checkpoint(), slack_ms=3000))


def prompt_of(name: str) -> torch.Tensor:
    """A system's turn, which the talker leaves out, a user's, and the begin of the answer."""
    size = TALKS[name][0]
    generator = torch.Generator().manual_seed(size)
    spoken = torch.randint(0, 250, (1, size), generator=generator)
    if name == "e":
        spoken = sounds.with_sound(spoken, small_qwen3.AUDIO, 5)
    words = spoken[0].tolist()
    system = [small_qwen3.IM_START, small_qwen3.SYSTEM, 11, 12]
    user = [small_qwen3.IM_START, small_qwen3.USER, 10, *words]
    return torch.tensor([[*system, *user, small_qwen3.IM_START, small_qwen3.ASSISTANT, 10]])


@functools.cache
def thoughts_of(name: str) -> list[Thought]:
    thinker = small_qwen3.reference().thinker
    heard = heard_in(name)
    return think(thinker, prompt_of(name), TALKS[name][1], layer=small_qwen3.LAYER, **heard)


def heard_in(name: str) -> dict[str, torch.Tensor]:
    return {} if name != "e" else sounds.features()


@functools.cache
def frames_of(name: str) -> tuple[tuple[int, ...], ...]:
    """What transformers says, greedily."""
    model = small_qwen3.reference()
    heard: list[torch.Tensor] = []

    def hear(_: Any, given: tuple[torch.Tensor, ...]) -> None:
        heard.append(given[0][0].T)

    hook = model.code2wav.register_forward_pre_hook(hear)
    try:
        model.generate(
            input_ids=prompt_of(name),
            attention_mask=torch.ones_like(prompt_of(name)),
            speaker="Ethan",
            thinker_max_new_tokens=TALKS[name][1],
            thinker_do_sample=False,
            talker_do_sample=False,
            talker_repetition_penalty=small_qwen3.SAMPLING["talker_repetition_penalty"],
            talker_max_new_tokens=40,
            **heard_in(name),
        )
    finally:
        hook.remove()
    return tuple(tuple(frame) for frame in torch.cat(heard).tolist())


def flat(said: Said, name: str) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(frame) for frame in np.concatenate(said[name]).tolist())


@pytest.mark.parametrize("feed", [one_by_one, in_bursts, at_once])
@pytest.mark.parametrize("name", list(TALKS))
def test_greedy_frames_are_those_of_transformers(
    stage: TalkerStage, name: str, feed: Callable[[Sender], None]
) -> None:
    frames = speak(stage, start(stage, request(name), thoughts_of(name)), feed)
    assert tuple(map(tuple, frames.tolist())) == frames_of(name)
    assert frames.shape[1] == small_qwen3.NUM_GROUPS
    assert stage.pool.num_free_tokens == stage.pool.num_tokens


def test_requests_that_come_and_go_at_different_times_do_not_mix(stage: TalkerStage) -> None:
    senders: dict[str, Sender] = {}
    said: Said = {}
    largest, number, waiting = 0, 0, list(TALKS)
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
    assert {name: flat(said, name) for name in TALKS} == {name: frames_of(name) for name in TALKS}


def test_of_sounds_it_reads_the_hidden_states(stage: TalkerStage) -> None:
    """And of texts the embeddings alone."""
    prompt, *answer = thoughts_of("b")
    place = 8
    sounds = np.zeros(prompt.num_rows, bool)
    sounds[place] = True
    of_sound = replace(prompt, multimodal=sounds)
    hidden, embeddings = prompt.hidden.copy(), prompt.embeddings.copy()
    hidden[place] += 1
    embeddings[place] += 1

    def say(thought: Thought) -> bytes:
        return speak(stage, start(stage, request("r"), [thought, *answer]), at_once).tobytes()

    assert say(replace(prompt, hidden=hidden)) == say(prompt)
    assert say(replace(of_sound, embeddings=embeddings)) == say(of_sound)
    opened = [stage.talker.open("ethan", thought).inputs for thought in (prompt, of_sound)]
    assert not torch.equal(opened[0], opened[1])
    projected = stage.talker._model.hidden_projection(torch.from_numpy(prompt.hidden[place]))  # type: ignore[attr-defined]
    assert torch.allclose(opened[1][place - 4], projected, atol=1e-6)


def test_a_prompt_without_an_answer_to_come_is_refused(stage: TalkerStage) -> None:
    prompt = thoughts_of("a")[0]
    cut = replace(
        prompt,
        **{
            name: getattr(prompt, name)[:-3]
            for name in ("token_ids", "embeddings", "hidden", "multimodal")
        },
    )
    sender = start(stage, request("a"), [cut])
    with pytest.raises(StageFailedError, match="does not end with the assistant's turn"):
        sender.send()
    stage.abort("a")


def test_an_unknown_voice_is_refused(stage: TalkerStage) -> None:
    with pytest.raises(InvalidRequestError, match="voice must be one of chelsie, ethan"):
        stage.add(request("r", prompt={"voice": "Nobody"}))
