"""The thinker through the engine: its tokens, embeddings and hidden states are transformers'."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.errors import ContextLengthError, InvalidRequestError
from tests.worker.models.qwen_omni.noises import clip_of, message
from tests.worker.models.qwen_omni.omni_pipelines import listened, small_omni
from tests.worker.models.qwen_omni.references import Thinking, think
from tests.worker.models.qwen_omni.tiny_omni import CHECKPOINTS, WIDTH, ids_of
from tests.worker.vllm.engines import RunningEngine, running_engine
from worker.models.qwen_omni.thought import Thought, read_thought

pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("default")]

THINKING, LISTENING = 1, 2
# Of the small pipelines.
MAX_MODEL_LEN = 1024
TOLERANCE = 2e-4
TEXTS = ("Hi.", "What is the time in Lisbon?", "Count to three, please. " * 4)


# What each tells the talker: what comes behind the last layer, and the input of the second.
LAYERS = {"qwen2_5-omni": -1, "qwen3-omni": 1}


@dataclass(frozen=True, slots=True)
class Omni:
    running: RunningEngine
    folder: Path
    layer: int


@pytest.fixture(scope="module", params=CHECKPOINTS)
def omni(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Omni]:
    folder = CHECKPOINTS[request.param](tmp_path_factory.mktemp("omni"))
    with running_engine(listened(small_omni(request.param, folder))) as engine:
        yield Omni(engine, folder, LAYERS[request.param])


async def ask(
    running: RunningEngine,
    name: str,
    messages: list[Any],
    num_tokens: int,
    *,
    is_spoken: bool = True,
    **prompt: Any,
) -> tuple[list[Thought], dict[str, Any]]:
    """The thoughts of an answer, and the last of what is said to the client."""
    sampling = {"temperature": 0, "max_tokens": num_tokens}
    outputs = running.engine.generate(
        name,
        {"messages": messages, "sampling": sampling, **prompt},
        final_stage_id=LISTENING if is_spoken else THINKING,
        final_output_stage_ids=[THINKING],
    )
    thoughts, said = list[Thought](), dict[str, Any]()
    async with contextlib.aclosing(outputs) as opened:
        async for output in opened:
            thought = read_thought(output.payload, WIDTH)
            if thought is not None:
                thoughts.append(thought)
            said = output.payload.get("thought", said)
    return thoughts, said


def check(thoughts: list[Thought], wanted: Thinking) -> None:
    tokens = np.concatenate([thought.token_ids for thought in thoughts])
    assert tokens.tolist() == wanted.prompt_ids + wanted.answer_ids[:-1]
    assert thoughts[0].is_prompt
    assert thoughts[0].num_rows == len(wanted.prompt_ids)
    assert [t.is_prompt for t in thoughts[1:]] == [False] * (len(thoughts) - 1)
    assert [t.is_last for t in thoughts] == [False] * (len(thoughts) - 1) + [True]
    for name in ("embeddings", "hidden"):
        got = np.concatenate([getattr(thought, name) for thought in thoughts])
        np.testing.assert_allclose(got, getattr(wanted, name), rtol=0, atol=TOLERANCE)


def test_many_answers_at_once_are_those_of_transformers(omni: Omni) -> None:
    async def scenario() -> list[Any]:
        asked = [
            ask(omni.running, f"r{i}", message(text), 6 + 7 * i) for i, text in enumerate(TEXTS)
        ]
        return list(await asyncio.gather(*asked))

    for i, (thoughts, said) in enumerate(omni.running.run(scenario())):
        wanted = think(omni.folder, message(TEXTS[i]), 6 + 7 * i, layer=omni.layer)
        check(thoughts, wanted)
        has_stopped = wanted.answer_ids[-1] == ids_of(omni.folder)["<|im_end|>"]
        assert said["finish_reason"] == ("stop" if has_stopped else "length")
        assert said["usage"]["prompt_tokens"] == len(wanted.prompt_ids)
        assert said["usage"]["completion_tokens"] == len(wanted.answer_ids)


def test_what_is_heard_is_what_transformers_hears(omni: Omni) -> None:
    clips = [clip_of(9_000, 1), clip_of(40_123, 2)]
    asked = message("One:", None, "Two:", None)

    async def scenario() -> list[Any]:
        both = ask(omni.running, "both", asked, 12, clips=clips)
        one = ask(omni.running, "one", message(None), 12, clips=clips[:1])
        return list(await asyncio.gather(both, one))

    (both, said), (one, _) = omni.running.run(scenario())
    wanted = think(omni.folder, asked, 12, clips, omni.layer)
    check(both, wanted)
    ids = ids_of(omni.folder)
    audio_token = ids.get("<|AUDIO|>", ids.get("<|audio_pad|>"))
    np.testing.assert_array_equal(
        both[0].multimodal, [token == audio_token for token in wanted.prompt_ids]
    )
    num_sounds = int(both[0].multimodal.sum())
    assert said["usage"]["prompt_tokens"] == len(wanted.prompt_ids) - num_sounds
    check(one, think(omni.folder, message(None), 12, clips[:1], omni.layer))


def test_an_answer_that_nobody_speaks_brings_no_states(omni: Omni) -> None:
    """Beside one that is spoken: its states are told all the same."""

    async def scenario() -> list[Any]:
        written = ask(omni.running, "written", message(TEXTS[1]), 13, is_spoken=False)
        spoken = ask(omni.running, "spoken", message(TEXTS[2]), 20)
        return list(await asyncio.gather(written, spoken))

    (none, said), (thoughts, _) = omni.running.run(scenario())
    assert none == []
    wanted = think(omni.folder, message(TEXTS[1]), 13, layer=omni.layer)
    assert said["usage"]["completion_tokens"] == len(wanted.answer_ids)
    check(thoughts, think(omni.folder, message(TEXTS[2]), 20, layer=omni.layer))


def test_the_oldest_turns_go_with_their_sounds_where_not_all_fit(omni: Omni) -> None:
    """A replay gets the same prompt, since the same request does."""
    clips = [clip_of(20_000 + 500 * number, number) for number in range(14)]
    turns = [[*message(None), {"role": "assistant", "content": "x" * 60}] for _ in clips]
    messages = [*itertools.chain(*turns), *message("And now?")]

    async def scenario() -> list[Any]:
        asked = [
            ask(omni.running, name, messages, 12, clips=clips, truncation={})
            for name in ("one", "again")
        ]
        return list(await asyncio.gather(*asked))

    (one, said), (again, _) = omni.running.run(scenario())
    num_gone = said["usage"]["left_out_messages"]
    assert 0 < num_gone < len(clips) - 2
    wanted = think(omni.folder, messages[2 * num_gone :], 12, clips[num_gone:], omni.layer)
    check(one, wanted)
    check(again, wanted)
    assert MAX_MODEL_LEN - 12 - 200 < one[0].num_rows <= MAX_MODEL_LEN - 12
    num_sounds = int(one[0].multimodal.sum())
    assert said["usage"]["prompt_tokens"] == len(wanted.prompt_ids) - num_sounds
    with pytest.raises(ContextLengthError, match="the model reads"):
        omni.running.run(ask(omni.running, "whole", messages, 12, clips=clips))


@pytest.mark.parametrize(
    ("messages", "prompt", "named"),
    [
        (message("Hi <|im_end|> there"), {}, "control tokens"),
        (message("x" * 2000), {}, "prompt of"),
        (message(None), {}, "clips"),
        (message(None), {"clips": [np.zeros(100, np.int16)]}, r"0\.1 s"),
        (message(None), {"clips": [np.zeros(301 * 16_000, np.int16)]}, "300 s"),
        (message("Hi"), {"voice": "Nobody"}, "voice must be one of .*ethan"),
        (message("Hi"), {"speed": 2.0}, "speed"),
        (message("Hi"), {"truncation": "auto"}, "truncation"),
        ([{"role": "user", "content": [{"type": "image_url"}]}], {}, "sees nothing"),
        (message("Hi"), {"tooling": {"tools": [{"type": "function"}]}}, "tools"),
    ],
)
def test_bad_input_is_refused_by_name(
    omni: Omni, messages: Any, prompt: dict[str, Any], named: str
) -> None:
    with pytest.raises(InvalidRequestError, match=named):
        omni.running.run(ask(omni.running, "bad", messages, 3, **prompt))
