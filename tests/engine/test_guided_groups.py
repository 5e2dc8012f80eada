"""CFG groups through the whole engine: real processes and a model that really guides."""

from __future__ import annotations

import asyncio
import os
import signal

import msgspec
import pytest

from engine.async_omni_engine import AsyncOmniEngine
from engine.errors import DuplicateRequestError, InvalidRequestError, StageFailedError
from engine.outputs import OmniRequestOutput
from engine.pipeline import PipelineConfig
from tests.engine.running import QUICK, READY_S, pids, run, running, tones
from tests.worker.models.guided import NUM_TOKENS, reference_tokens

pytestmark = pytest.mark.process


def guided(num_replicas: int = 1, max_batch_size: int = 7) -> PipelineConfig:
    pipeline = tones(num_replicas)
    first = msgspec.structs.replace(
        pipeline.stages[0],
        model="tests.worker.models.guided:load",
        max_batch_size=max_batch_size,
        steps_in_flight=2,
    )
    return msgspec.structs.replace(
        pipeline,
        prompt_transform_func="tests.worker.models.guided:transform_prompt",
        prompt_expand_func="tests.worker.models.guided:expand_prompt",
        stages=(first, *pipeline.stages[1:]),
    )


async def tokens_of(engine: AsyncOmniEngine, request_id: str, text: str) -> list[int]:
    """The tokens that stage 0 gave, read from its own outputs; the audio must be as long."""
    tokens, num_samples = list[int](), 0
    stream = engine.generate(request_id, {"text": text}, final_output_stage_ids=[0, 1])
    outputs: list[OmniRequestOutput] = [output async for output in stream]
    for output in outputs:
        assert output.request_id == request_id, "a companion became visible"
        if "note" in output.payload:
            tokens.append((output.payload["note"]["hz"] - 200) // 10)
        if output.audio is not None:
            num_samples += output.num_samples
    assert num_samples == NUM_TOKENS * 240
    return tokens


def test_guided_tokens_equal_a_plain_two_pass_loop_among_solo_requests() -> None:
    async def scenario() -> None:
        async with running(guided(2)) as engine:
            texts = [f"text {i}" for i in range(40)] + [f"solo {i}" for i in range(20)]
            found = await asyncio.gather(
                *(tokens_of(engine, f"r{i}", text) for i, text in enumerate(texts))
            )
            for text, tokens in zip(texts, found, strict=True):
                null = text if "solo" in text else "null free"
                assert tokens == reference_tokens(text, null)

    run(scenario)


def test_guidance_survives_the_loss_of_the_groups_replica() -> None:
    async def scenario() -> None:
        async with running(guided(2)) as engine:
            texts = [f"text {i}" for i in range(60)]
            tasks = [
                asyncio.create_task(tokens_of(engine, f"r{i}", text))
                for i, text in enumerate(texts)
            ]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            os.kill(pids(engine, 0)[0], signal.SIGKILL)
            for text, tokens in zip(texts, await asyncio.gather(*tasks), strict=True):
                assert tokens == reference_tokens(text, "null free")
            await engine.wait_ready(READY_S)

    run(scenario)


def test_several_companions_finish_with_their_parent() -> None:
    async def scenario() -> None:
        async with running(guided()) as engine:
            assert await tokens_of(engine, "a", "twice") == reference_tokens("twice", "null free")

    run(scenario)


@pytest.mark.parametrize("text", ["fail 5", "fail 0"])
def test_a_member_that_fails_fails_the_group_and_nothing_else(text: str) -> None:
    async def scenario() -> None:
        async with running(guided()) as engine:
            good = asyncio.create_task(tokens_of(engine, "good", "text"))
            with pytest.raises(StageFailedError):
                await tokens_of(engine, "bad", text)
            assert await good == reference_tokens("text", "null free")

    run(scenario)


def test_an_expansion_that_raises_leaves_nothing_queued() -> None:
    async def scenario() -> None:
        async with running(guided()) as engine:
            with pytest.raises(RuntimeError, match="the expansion failed"):
                await tokens_of(engine, "a", "explode")
            assert engine._table.num_live == 0
            await tokens_of(engine, "a", "text")

    run(scenario)


def test_a_group_that_no_batch_holds_is_refused_before_it_is_queued() -> None:
    async def scenario() -> None:
        async with running(guided(max_batch_size=2)) as engine:
            with pytest.raises(StageFailedError, match="too few for a group of 3"):
                await tokens_of(engine, "a", "twice")

    run(scenario)


def test_a_companions_id_cannot_be_taken_and_text_in_segments_is_refused() -> None:
    async def scenario() -> None:
        # Less than the tokens sound: the request does not end before it is read.
        config = msgspec.structs.replace(QUICK, max_buffered_audio_s=0.05)
        async with running(guided(), config) as engine:
            await engine.add_request_async("a", {"text": "text"}, final_stage_id=1)
            with pytest.raises(DuplicateRequestError):
                await engine.add_request_async("a/free", {"text": "text"}, final_stage_id=1)
            with pytest.raises(InvalidRequestError) as caught:
                await engine.add_request_async(
                    "b", {"text": "text"}, final_stage_id=1, resumable=True
                )
            assert caught.value.param == "resumable"
            await engine.abort(["a"])

    run(scenario)


def test_aborting_parents_at_any_time_lets_go_of_whole_groups() -> None:
    async def scenario() -> None:
        async with running(guided(2)) as engine:
            for number in range(40):
                stream = engine.generate(f"r{number}", {"text": f"text {number}"})
                for _ in range(number % 4):
                    await anext(stream)
                await stream.aclose()

    run(scenario)


def test_a_request_that_ends_with_stage_0_has_no_companions() -> None:
    async def scenario() -> None:
        async with running(guided()) as engine:
            stream = engine.generate("a", {"text": "text"}, final_stage_id=0)
            tokens = [
                (output.payload["note"]["hz"] - 200) // 10
                async for output in stream
                if "note" in output.payload
            ]
            assert tokens == reference_tokens("text", "text")

    run(scenario)
