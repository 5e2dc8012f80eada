"""Messages and sounds to text and speech through the whole engine, as transformers has them."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.messages import SamplingParams
from tests.worker.models.qwen_omni.noises import clip_of, message
from tests.worker.models.qwen_omni.omni_pipelines import small_omni
from tests.worker.models.qwen_omni.references import PENALTY_OF_CODES, Message, speak
from tests.worker.models.qwen_omni.tiny_omni import CHECKPOINTS
from tests.worker.vllm.engines import RunningEngine, running_engine

pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("default", PENALTY_OF_CODES)]

# Of full scale; a step of int16 is 3e-5.
TOLERANCE = 3e-4
SYSTEM = [{"role": "system", "content": "Answer."}]
THINKING, SPEAKING = 1, 3


@dataclass
class Answer:
    text: str = ""
    num_tokens: int = 0
    chunks: list[NDArray[np.int16]] = field(default_factory=list)

    @property
    def samples(self) -> NDArray[np.int16]:
        return np.concatenate([np.zeros(0, np.int16), *self.chunks])


@dataclass(frozen=True, slots=True)
class Omni:
    running: RunningEngine
    folder: Path


@pytest.fixture(scope="module", params=CHECKPOINTS)
def omni(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Omni]:
    folder = CHECKPOINTS[request.param](tmp_path_factory.mktemp("omni"))
    with running_engine(small_omni(request.param, folder)) as engine:
        yield Omni(engine, folder)


async def ask(
    running: RunningEngine,
    name: str,
    messages: list[Message],
    num_tokens: int,
    seed: int = 0,
    response_format: dict[str, Any] | None = None,
    **prompt: Any,
) -> Answer:
    given: dict[str, Any] = {"temperature": 0, "max_tokens": num_tokens}
    if response_format is not None:
        given["response_format"] = response_format
    outputs = running.engine.generate(
        name,
        {"messages": messages, "sampling": given, **prompt},
        sampling_params_list=[SamplingParams(seed=seed)] * 4,
        final_output_stage_ids=[THINKING, SPEAKING],
    )
    answer = Answer()
    async with contextlib.aclosing(outputs) as opened:
        async for output in opened:
            thought = output.payload.get("thought", {})
            answer.text += thought.get("delta", "")
            if thought.get("usage"):
                answer.num_tokens = thought["usage"]["completion_tokens"]
            if output.audio is not None:
                answer.chunks.append(np.frombuffer(output.audio, np.int16))
    return answer


def check(answer: Answer, tokens: list[int], waveform: NDArray[np.float32]) -> None:
    assert answer.num_tokens == len(tokens)
    assert answer.samples.shape == waveform.shape
    assert np.abs(waveform).max() > 0.01, "silence would prove nothing"
    assert np.abs(answer.samples / 32767 - waveform).max() < TOLERANCE


def test_many_are_heard_and_answered_at_once_as_transformers_does(omni: Omni) -> None:
    clips = [clip_of(9_000, 1), clip_of(23_000, 2)]
    asked = [
        (SYSTEM + message("Hello there"), 30, [], "Chelsie"),
        (SYSTEM + message("Say it again."), 14, [], "Ethan"),
        (SYSTEM + message("What is", None, "this?"), 20, clips[:1], "Chelsie"),
        (SYSTEM + message(None, None), 9, clips, "Ethan"),
    ]

    async def scenario() -> list[Answer]:
        answers = [
            ask(omni.running, f"r{i}", messages, count, i, clips=sounds, voice=voice.lower())
            for i, (messages, count, sounds, voice) in enumerate(asked)
        ]
        return list(await asyncio.gather(*answers))

    for i, answer in enumerate(omni.running.run(scenario())):
        messages, count, sounds, voice = asked[i]
        check(answer, *speak(omni.folder, messages, count, sounds, speaker=voice, seed=i))


def test_an_answer_has_the_form_that_is_asked_for(omni: Omni) -> None:
    schema = {
        "type": "object",
        "properties": {"city": {"enum": ["Bern", "Bonn"]}, "days": {"enum": [1, 2]}},
        "required": ["city", "days"],
        "additionalProperties": False,
    }
    wanted = {"type": "json_schema", "json_schema": {"name": "trip", "schema": schema}}

    async def scenario() -> Answer:
        messages = SYSTEM + message("Where", None)
        return await ask(
            omni.running, "form", messages, 80, clips=[clip_of(9_000, 1)], response_format=wanted
        )

    answer = omni.running.run(scenario())
    said = json.loads(answer.text)
    assert said["city"] in ("Bern", "Bonn")
    assert said["days"] in (1, 2)
    assert len(answer.samples) > 0


def test_a_client_that_leaves_leaves_nothing_behind(omni: Omni) -> None:
    running = omni.running

    async def scenario() -> None:
        outputs = running.engine.generate(
            "gone",
            {"messages": SYSTEM + message("Hello there"), "sampling": {"max_tokens": 200}},
            final_output_stage_ids=[THINKING, SPEAKING],
        )
        async with contextlib.aclosing(outputs) as opened:
            async for _ in opened:
                break
        await running.engine.abort(["gone"])
        again = await ask(running, "again", SYSTEM + message("Hello there"), 5)
        assert len(again.samples) > 0

    running.run(scenario())
