"""Text to sound through the whole engine: vLLM and the codec, against plain loops."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from engine.errors import InvalidRequestError, StageFailedError
from engine.messages import SamplingParams
from engine.outputs import OmniRequestOutput
from tests.engine.running import pids
from tests.worker.models.lm_codec.checkpoints import ENDS_EARLY, NEVER_ENDS, SAYS_NONSENSE
from tests.worker.models.lm_codec.speaking import (
    ORPHEUS,
    assert_same,
    greedy,
    samples_of,
    speak,
)
from tests.worker.vllm.engines import (
    PATIENT,
    START_TIMEOUT_S,
    RunningEngine,
    running_engine,
)

pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("default")]

TEXTS = ("Hi there.", "Good morning, Anna!", "One two three four five six.", "Is it you?")
PARTS = ("This is the first of them.", "And this one is the second.")
SCALE = 2.0


@pytest.fixture(scope="module")
def description(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ORPHEUS.write_description(tmp_path_factory.mktemp("described"))


@pytest.fixture(scope="module")
def running(description: Path) -> Iterator[RunningEngine]:
    """No stage is far ahead of the listener: of a long text most is still to be made."""
    pipeline = ORPHEUS.pipeline(description)
    codec = msgspec.structs.replace(pipeline.stages[1], max_pending_units=2)
    pipeline = msgspec.structs.replace(pipeline, stages=(pipeline.stages[0], codec))
    config = msgspec.structs.replace(PATIENT, max_buffered_audio_s=1.0)
    with running_engine(pipeline, config) as engine:
        yield engine


def test_what_is_heard_is_what_a_plain_loop_makes_in_chunks_from_80_ms_on(
    running: RunningEngine, description: Path
) -> None:
    async def scenario() -> list[list[Any]]:
        return await asyncio.gather(*(speak(running.engine, text, text) for text in TEXTS))

    for text, chunks in zip(TEXTS, running.run(scenario()), strict=True):
        assert_same(chunks, ORPHEUS.plain_audio(description, text))
        assert len(chunks) > 2
        assert len(chunks[0]) == 2048


def test_guided_speech_is_that_of_a_two_pass_loop(
    running: RunningEngine, description: Path
) -> None:
    async def scenario() -> list[list[Any]]:
        jobs = [speak(running.engine, f"g{t}", t, guidance_scale=SCALE) for t in TEXTS[:2]]
        return await asyncio.gather(*jobs)

    for text, chunks in zip(TEXTS, running.run(scenario()), strict=False):
        guided = ORPHEUS.plain_audio(description, text, scale=SCALE)
        assert_same(chunks, guided)
        assert not np.array_equal(guided, ORPHEUS.plain_audio(description, text))


def test_a_longer_text_is_said_passage_by_passage(
    running: RunningEngine, description: Path
) -> None:
    chunks = running.run(speak(running.engine, "long", " ".join(PARTS)))
    expected = [ORPHEUS.plain_audio(description, part, n) for n, part in enumerate(PARTS)]
    assert_same(chunks, np.concatenate(expected))


def test_text_in_segments_is_guided_too(running: RunningEngine, description: Path) -> None:
    async def scenario() -> list[OmniRequestOutput]:
        engine = running.engine
        await engine.add_request_async(
            "segments",
            {"text": f"{TEXTS[0]} Good mor"},
            sampling_params_list=[greedy(guidance_scale=SCALE), SamplingParams()],
            final_stage_id=1,
            resumable=True,
        )
        await engine.add_streaming_update_async("segments", {"text": "ning, Anna!"})
        await engine.add_streaming_update_async("segments", {"text": ""}, resumable=False)
        return [output async for output in engine.outputs("segments")]

    expected = [
        ORPHEUS.plain_audio(description, text, n, SCALE) for n, text in enumerate(TEXTS[:2])
    ]
    assert_same(samples_of(running.run(scenario())), np.concatenate(expected))


def test_a_request_that_ends_with_the_language_model_is_guided_too(running: RunningEngine) -> None:
    """Its codes are the caller's: those of the same request that is heard."""

    async def codes_of(scale: float) -> list[Any]:
        outputs = running.engine.generate(
            f"codes {scale}",
            {"text": TEXTS[0]},
            sampling_params_list=[greedy(guidance_scale=scale)],
            final_stage_id=0,
        )
        units = [o.payload["unit"] async for o in outputs if "unit" in o.payload]
        windows = [window for unit in units for window in unit["windows"]]
        return [w["codes"][w["num_left"] :][: w["num_core"]].tolist() for w in windows]

    async def scenario() -> tuple[list[Any], list[Any], int]:
        heard = await speak(running.engine, "heard", TEXTS[0], guidance_scale=SCALE)
        return await codes_of(SCALE), await codes_of(1.0), sum(map(len, heard))

    guided, free, num_samples = running.run(scenario())
    assert guided != free
    assert 2048 * sum(map(len, guided)) == num_samples


def test_a_lost_language_model_goes_on_behind_what_was_delivered(
    running: RunningEngine, description: Path
) -> None:
    """Its worker is killed when the second passage is heard; greedy, so the same follows."""
    texts = (*PARTS, *PARTS, TEXTS[2])

    async def scenario() -> list[OmniRequestOutput]:
        engine = running.engine
        outputs, victim = list[OmniRequestOutput](), pids(engine, 0)[0]
        stream = engine.generate(
            "lost",
            {"text": " ".join(texts)},
            sampling_params_list=[greedy(), SamplingParams()],
            final_stage_id=1,
        )
        async for output in stream:
            outputs.append(output)
            if len(outputs) == 4:
                os.kill(victim, signal.SIGKILL)
        assert victim not in pids(engine, 0)
        await engine.wait_ready(START_TIMEOUT_S)
        return outputs

    num_replays = running.engine.snapshot.counters.num_replays
    outputs = running.run(scenario())
    assert running.engine.snapshot.counters.num_replays > num_replays, "it had ended before"
    position = 0
    for output in (output for output in outputs if output.audio is not None):
        assert output.start_sample == position
        position += output.num_samples
    expected = [ORPHEUS.plain_audio(description, text, n) for n, text in enumerate(texts)]
    assert_same(samples_of(outputs), np.concatenate(expected))


@pytest.mark.parametrize(
    ("text", "sampling", "error", "message"),
    [
        ("Hi.", {"max_tokens": 15}, StageFailedError, "the model did not stop"),
        (f"Hi {NEVER_ENDS}.", {}, StageFailedError, "the model did not stop: 5 characters"),
        (f"Hi {ENDS_EARLY}.", {}, StageFailedError, "stopped early: 0 frames for 5 characters"),
        (f"Hi {SAYS_NONSENSE}.", {}, StageFailedError, "said token 128264 in frame 0"),
        ("Hi.", {"extra": {"stop": "x"}}, InvalidRequestError, "stop cannot be set"),
        ("Hi.", {"guidance_scale": float("nan")}, InvalidRequestError, "guidance_scale must be"),
        ("Hi.", {"temperature": 9.0}, InvalidRequestError, "temperature must be"),
    ],
)
def test_a_stream_that_is_no_speech_ends_in_an_error_and_harms_nobody(
    running: RunningEngine,
    description: Path,
    text: str,
    sampling: dict[str, Any],
    error: type[Exception],
    message: str,
) -> None:
    async def scenario() -> list[Any]:
        good = asyncio.create_task(speak(running.engine, "good", TEXTS[0]))
        with pytest.raises(error, match=message):
            await speak(running.engine, "bad", text, **sampling)
        return await good

    assert_same(running.run(scenario()), ORPHEUS.plain_audio(description, TEXTS[0]))
