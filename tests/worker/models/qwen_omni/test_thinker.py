"""The thinker through the engine: its tokens, embeddings and hidden states are transformers'."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from engine.errors import InvalidRequestError
from tests.worker.models.qwen_omni.omni_pipelines import small_omni, text_only
from tests.worker.models.qwen_omni.references import Thinking, think
from tests.worker.models.qwen_omni.tiny_omni import write_qwen25
from tests.worker.vllm.engines import RunningEngine, running_engine
from worker.models.qwen_omni.thought import Thought, read_thought

pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("default")]

TOLERANCE = 2e-4
TEXTS = ("Hi.", "What is the time in Lisbon?", "Count to three, please. " * 4)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_qwen25(tmp_path_factory.mktemp("omni"))


@pytest.fixture(scope="module")
def running(folder: Path) -> Iterator[RunningEngine]:
    pipeline = text_only(small_omni("qwen2_5-omni", folder))
    think = pipeline.stages[1]
    options = think.options | {"system": None}
    stages = (pipeline.stages[0], msgspec.structs.replace(think, options=options))
    with running_engine(msgspec.structs.replace(pipeline, stages=stages)) as engine:
        yield engine


def clip_of(num_samples: int, seed: int) -> NDArray[np.int16]:
    """Noise that swells and fades."""
    rng = np.random.default_rng(seed)
    swell = np.sin(np.arange(num_samples) / 900.0) ** 2
    clip: NDArray[np.int16] = (rng.standard_normal(num_samples) * swell * 6000).astype(np.int16)
    return clip


async def ask(
    running: RunningEngine, name: str, messages: list[Any], num_tokens: int, **prompt: Any
) -> tuple[list[Thought], dict[str, Any]]:
    """The thoughts of an answer, and the last of what is said to the client."""
    sampling = {"temperature": 0, "max_tokens": num_tokens}
    outputs = running.engine.generate(
        name, {"messages": messages, "sampling": sampling, **prompt}, final_stage_id=1
    )
    thoughts, said = list[Thought](), dict[str, Any]()
    async with contextlib.aclosing(outputs) as opened:
        async for output in opened:
            thought = read_thought(output.payload, 128)
            if thought is not None:
                thoughts.append(thought)
                said = output.payload["thought"]
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


def message(*parts: Any) -> list[Any]:
    content = [{"type": "text", "text": part} if part else {"type": "audio"} for part in parts]
    return [{"role": "user", "content": content}]


def test_many_answers_at_once_are_those_of_transformers(
    running: RunningEngine, folder: Path
) -> None:
    async def scenario() -> list[Any]:
        asked = [ask(running, f"r{i}", message(text), 6 + 7 * i) for i, text in enumerate(TEXTS)]
        return list(await asyncio.gather(*asked))

    for i, (thoughts, said) in enumerate(running.run(scenario())):
        wanted = think(folder, message(TEXTS[i]), 6 + 7 * i)
        check(thoughts, wanted)
        assert said["finish_reason"] == ("stop" if wanted.answer_ids[-1] == 256 else "length")
        assert said["usage"]["prompt_tokens"] == len(wanted.prompt_ids)
        assert said["usage"]["completion_tokens"] == len(wanted.answer_ids)


def test_what_is_heard_is_what_transformers_hears(running: RunningEngine, folder: Path) -> None:
    clips = [clip_of(9_000, 1), clip_of(40_123, 2)]
    asked = message("One:", None, "Two:", None)

    async def scenario() -> list[Any]:
        both = ask(running, "both", asked, 12, clips=clips)
        one = ask(running, "one", message(None), 12, clips=clips[:1])
        return list(await asyncio.gather(both, one))

    (both, said), (one, _) = running.run(scenario())
    wanted = think(folder, asked, 12, clips)
    check(both, wanted)
    audio_token = 259
    np.testing.assert_array_equal(
        both[0].multimodal, [token == audio_token for token in wanted.prompt_ids]
    )
    num_sounds = int(both[0].multimodal.sum())
    assert said["usage"]["prompt_tokens"] == len(wanted.prompt_ids) - num_sounds
    check(one, think(folder, message(None), 12, clips[:1]))


@pytest.mark.parametrize(
    ("messages", "prompt", "named"),
    [
        (message("Hi <|im_end|> there"), {}, "control tokens"),
        (message("x" * 2000), {}, "prompt of"),
        (message(None), {}, "clips"),
        (message(None), {"clips": [np.zeros(100, np.int16)]}, r"0\.1 s"),
        (message(None), {"clips": [np.zeros(301 * 16_000, np.int16)]}, "300 s"),
        (message("Hi"), {"voice": "Nobody"}, "voice must be one of chelsie, ethan"),
        (message("Hi"), {"speed": 2.0}, "speed"),
        ([{"role": "user", "content": [{"type": "image_url"}]}], {}, "sees nothing"),
        (message("Hi"), {"tooling": {"tools": [{"type": "function"}]}}, "tools"),
    ],
)
def test_bad_input_is_refused_by_name(
    running: RunningEngine, messages: Any, prompt: dict[str, Any], named: str
) -> None:
    with pytest.raises(InvalidRequestError, match=named):
        running.run(ask(running, "bad", messages, 3, **prompt))
