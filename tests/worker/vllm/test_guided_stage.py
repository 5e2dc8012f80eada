"""A language-model stage through the whole engine, against plain loops over the same weights."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.async_omni_engine import AsyncOmniEngine
from engine.errors import InvalidRequestError, StageFailedError, VoxloomError
from engine.messages import SamplingParams
from engine.outputs import OmniInteractionPrompt
from tests.worker.vllm.engines import (
    RunningEngine,
    preemptions,
    running_engine,
    stream,
    tokens_of,
)
from tests.worker.vllm.pipelines import spelled
from tests.worker.vllm.spelling import NUM_TOKENS, SAMPLES_PER_TOKEN, prompt_tokens, sentences_of
from tests.worker.vllm.tiny_model import find_mismatches, load_reference, write_tiny_model

pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("default")]

# 24 rows of up to 64 tokens need 48 blocks of 32: with 30, groups are preempted all the time.
FEW_BLOCKS = 30
SCALE = 3.0
SAMPLE_RATE = 24_000


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def running(checkpoint: Path) -> Iterator[RunningEngine]:
    with running_engine(spelled(checkpoint, num_kv_blocks=FEW_BLOCKS)) as engine:
        yield engine


def check_greedy(checkpoint: Path, text: str, scale: float | None, tokens: list[int]) -> None:
    model = load_reference(checkpoint)
    sentences = sentences_of(text)
    assert len(tokens) == NUM_TOKENS * len(sentences)
    for number, sentence in enumerate(sentences):
        part = tokens[number * NUM_TOKENS : (number + 1) * NUM_TOKENS]
        free = None if scale is None else prompt_tokens(f"free{sentence}")
        found = find_mismatches(model, prompt_tokens(sentence), free, scale or 1.0, part)
        assert found == [], f"{sentence!r} with scale {scale}"


def test_guided_tokens_equal_the_two_pass_loop_among_solos_preemptions_and_aborts(
    running: RunningEngine, checkpoint: Path
) -> None:
    """60 groups and 30 solos at once, 10 more groups that are left in the middle."""
    jobs = [(f"g{i}", f"sentence {i}. and {i}", SCALE) for i in range(60)]
    solos = [(f"s{i}", f"alone {i}", None) for i in range(30)]

    async def leave(engine: AsyncOmniEngine, number: int) -> None:
        outputs = stream(engine, f"x{number}", f"left {number}. early", SCALE)
        for _ in range(number):
            await anext(outputs, None)  # tokens that have come meanwhile come together
        await outputs.aclose()  # type: ignore[attr-defined]

    async def scenario() -> list[list[int]]:
        engine = running.engine
        leavers = [asyncio.create_task(leave(engine, number)) for number in range(1, 11)]
        found = await asyncio.gather(*(tokens_of(engine, *job) for job in [*jobs, *solos]))
        await asyncio.gather(*leavers)
        return found

    for (_, text, scale), tokens in zip([*jobs, *solos], running.run(scenario()), strict=True):
        check_greedy(checkpoint, text, scale, tokens)


def test_a_small_cache_preempts_and_vllms_own_metrics_say_so(running: RunningEngine) -> None:
    async def scenario() -> None:
        while preemptions(running.engine) == 0:
            jobs = [tokens_of(running.engine, f"p{i}", f"p {i}. q {i}", SCALE) for i in range(24)]
            await asyncio.gather(*jobs)

    running.run(scenario())


def test_sampled_rows_of_a_group_agree_and_a_seed_repeats_them(running: RunningEngine) -> None:
    """Rows that differ fail their request; so finishing is agreeing."""
    sampling = SamplingParams(guidance_scale=SCALE, temperature=1.0, top_k=40, top_p=0.95, seed=3)

    async def scenario() -> list[list[int]]:
        jobs = [
            tokens_of(running.engine, f"t{i}", f"sampled {i % 20}", sampling=sampling)
            for i in range(40)
        ]
        return await asyncio.gather(*jobs)

    found = running.run(scenario())
    assert found[:20] == found[20:]
    assert len({tuple(tokens) for tokens in found[:20]}) == 20


@pytest.mark.parametrize(
    ("text", "sampling", "error", "message"),
    [
        ("200 words", {}, InvalidRequestError, "a prompt of 200 tokens; the model reads 1 to 127"),
        ("", {}, InvalidRequestError, "no sentence"),
        ("a", {"guidance_scale": float("nan")}, InvalidRequestError, "guidance_scale must be"),
        ("a", {"guidance_scale": -1.0}, InvalidRequestError, "guidance_scale must be from 0"),
        ("a", {"temperature": -1.0}, InvalidRequestError, "temperature must be"),
        ("a", {"extra": {"n": 2}}, InvalidRequestError, "n is not a sampling parameter"),
        ("a", {"extra": {"logit_bias": {"999": 1}}}, InvalidRequestError, "logit_bias"),
        ("a", {"extra": {"stop": "b"}}, InvalidRequestError, "needs a model with a tokenizer"),
        (
            "a",
            {"guidance_scale": 2.0, "extra": {"presence_penalty": 1.0}},
            InvalidRequestError,
            "presence_penalty cannot be used together with guidance",
        ),
        ("sink fails at 5", {}, StageFailedError, "token 5 is no speech"),
    ],
)
def test_bad_input_is_refused_in_words_and_harms_nobody_else(
    running: RunningEngine,
    checkpoint: Path,
    text: str,
    sampling: dict[str, Any],
    error: type[VoxloomError],
    message: str,
) -> None:
    async def scenario() -> list[int]:
        good = asyncio.create_task(tokens_of(running.engine, "good", "good", SCALE))
        with pytest.raises(error, match=message):
            await tokens_of(running.engine, "bad", text, sampling=SamplingParams(**sampling))
        return await good

    check_greedy(checkpoint, "good", SCALE, running.run(scenario()))


def test_text_in_segments_becomes_passages_as_it_comes(
    running: RunningEngine, checkpoint: Path
) -> None:
    async def scenario() -> list[int]:
        engine = running.engine
        tokens = list[int]()
        given = [SamplingParams(), SamplingParams()]
        await engine.add_request_async(
            "r",
            {"text": "first. sec"},
            sampling_params_list=given,
            final_stage_id=1,
            final_output_stage_ids=[0, 1],
            resumable=True,
        )
        async for output in engine.outputs("r"):
            tokens += output.payload.get("tokens", [])
            if output.audio is not None and output.start_sample == 0:
                await engine.add_streaming_update_async("r", {"text": "ond. third"})
                await engine.add_streaming_update_async("r", {"text": ""}, resumable=False)
        return tokens

    check_greedy(checkpoint, "first. second. third", None, running.run(scenario()))


async def open_request(engine: AsyncOmniEngine, request_id: str, text: str) -> None:
    await engine.add_request_async(
        request_id,
        {"text": text},
        sampling_params_list=[SamplingParams(), SamplingParams()],
        final_stage_id=1,
        final_output_stage_ids=[0, 1],
        resumable=True,
    )


def test_a_flush_says_what_has_no_end_yet(running: RunningEngine, checkpoint: Path) -> None:
    """The sentence's tokens come before the request is closed, or the test never ends."""

    async def scenario() -> list[int]:
        engine, tokens, is_closed = running.engine, list[int](), False
        await open_request(engine, "f", "first. sec")
        await engine.submit_interaction_async("f", OmniInteractionPrompt("e", "flush"))
        async for output in engine.outputs("f"):
            tokens += output.payload.get("tokens", [])
            if len(tokens) == 2 * NUM_TOKENS and not is_closed:
                is_closed = True
                await engine.add_streaming_update_async("f", {"text": "ond."}, resumable=False)
        return tokens

    check_greedy(checkpoint, "first. sec. ond", None, running.run(scenario()))


def test_an_interrupt_ends_what_is_being_said_and_the_next_segment_is_whole(
    running: RunningEngine, checkpoint: Path
) -> None:
    text = ". ".join(f"sentence {number}" for number in range(30))

    async def scenario() -> tuple[list[int], list[int], list[Any], int]:
        engine = running.engine
        before, after, answers, num_samples = list[int](), list[int](), list[Any](), 0
        is_interrupted = False
        await open_request(engine, "i", f"{text}. ")
        async for output in engine.outputs("i"):
            (after if answers else before).extend(output.payload.get("tokens", []))
            num_samples += output.num_samples if output.audio is not None else 0
            if output.interaction is not None:
                answers.append(output.interaction)
                await engine.add_streaming_update_async("i", {"text": "Stop."}, resumable=False)
            elif len(before) >= 2 * NUM_TOKENS and not is_interrupted:
                is_interrupted = True
                interrupt = OmniInteractionPrompt("e", "interrupt")
                await engine.submit_interaction_async("i", interrupt)
        return before, after, answers, num_samples

    before, after, answers, num_samples = running.run(scenario())
    assert answers[0].error is None
    assert len(before) < 30 * NUM_TOKENS, "it was over before it was interrupted"
    check_greedy(checkpoint, "Stop", None, after)
    sent = answers[0].result["sent_ms"] * SAMPLE_RATE // 1000
    assert num_samples == sent + NUM_TOKENS * SAMPLES_PER_TOKEN


def test_one_token_leaves_before_the_sentence_is_done(running: RunningEngine) -> None:
    """It is asked again where the stage had no processor until vLLM had the whole sentence."""

    async def scenario() -> int:
        num_tokens = NUM_TOKENS
        while num_tokens == NUM_TOKENS:
            outputs = stream(running.engine, "a", "one sentence", SCALE)
            num_tokens = len((await anext(outputs)).payload["tokens"])
            await outputs.aclose()  # type: ignore[attr-defined]
            await running.engine.abort(["a"])
        return num_tokens

    assert 0 < running.run(scenario()) < NUM_TOKENS
