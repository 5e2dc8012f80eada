"""The whole talker: instructions, sampling, segments, words and errors, through vLLM."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from engine.async_omni_engine import AsyncOmniEngine
from engine.errors import InvalidRequestError
from engine.messages import SamplingParams
from engine.outputs import OmniInteractionPrompt
from engine.pipeline import load_pipeline
from tests.engine.running import Heard, listen
from tests.worker.vllm.engines import RunningEngine, running_engine

pytestmark = [pytest.mark.vllm, pytest.mark.model, pytest.mark.process]

TEXT = "The old lighthouse keeper climbed the stairs to light the lamp. Then the ships came home."
NUM_WORDS = len(TEXT.split())


@pytest.fixture(scope="module")
def running() -> Iterator[RunningEngine]:
    with running_engine(load_pipeline("hibari-talker")) as engine:
        yield engine


async def speak(
    engine: AsyncOmniEngine,
    request_id: str,
    sampling: SamplingParams | None = None,
    *,
    seed: int = 3,
    **prompt: Any,
) -> Heard:
    first = sampling or SamplingParams()
    params = [SamplingParams(**{**_fields(first), "seed": seed}), SamplingParams(seed=seed)]
    heard = Heard()
    stream = engine.generate(
        request_id, {"text": TEXT} | prompt, sampling_params_list=params, final_stage_id=1
    )
    async for output in stream:
        assert output.request_id == request_id
        heard.take(output)
    assert heard.is_finished
    return heard


def _fields(params: SamplingParams) -> dict[str, Any]:
    return {name: getattr(params, name) for name in params.__struct_fields__}


def length_s(heard: Heard) -> float:
    return len(heard.audio) / 48_000


def test_equal_seeds_give_equal_bytes_alone_and_beside_others(running: RunningEngine) -> None:
    async def scenario() -> list[Heard]:
        alone = await speak(running.engine, "alone")
        others = [speak(running.engine, f"other{n}", instructions="slow") for n in range(3)]
        beside = await asyncio.gather(speak(running.engine, "beside"), *others)
        return [alone, *beside]

    alone, beside, *others = running.run(scenario())
    assert alone.audio == beside.audio
    assert 3 < length_s(alone) < 8
    assert all(other.audio == others[0].audio for other in others)


def test_instructions_are_heard(running: RunningEngine) -> None:
    async def scenario() -> dict[str, float]:
        asked = [None, "slow", "very slow", "fast"]
        heard = [speak(running.engine, f"told{n}", instructions=w) for n, w in enumerate(asked)]
        return {
            str(words): length_s(each)
            for words, each in zip(asked, await asyncio.gather(*heard), strict=True)
        }

    lengths = running.run(scenario())
    assert lengths["fast"] < 0.95 * lengths["None"]
    assert lengths["slow"] > 1.05 * lengths["None"]
    assert lengths["very slow"] > lengths["slow"]


def test_every_word_is_told_once_in_order(running: RunningEngine) -> None:
    heard = running.run(speak(running.engine, "words", speed=1.2))
    assert [TEXT[first:last].strip(".") for _, _, first, last in heard.words] == [
        word.strip(".") for word in TEXT.split()
    ]
    starts = [word[0] for word in heard.words]
    assert starts == sorted(starts)
    assert 0 <= starts[0] < heard.words[-1][1] <= len(heard.audio) // 2


def test_speed_changes_the_length(running: RunningEngine) -> None:
    async def scenario() -> list[Heard]:
        return [
            await speak(running.engine, f"speed{speed}", speed=speed) for speed in (1.0, 2.0, 0.5)
        ]

    own, double, half = (length_s(heard) for heard in running.run(scenario()))
    # No phoneme is shorter than 25 ms.
    assert double == pytest.approx(own / 2, rel=0.3)
    assert half == pytest.approx(own * 2, rel=0.1)


def test_sampling_acts_and_bad_values_are_refused_by_name(running: RunningEngine) -> None:
    async def scenario() -> tuple[Heard, Heard, Heard]:
        greedy = SamplingParams(temperature=0.0)
        one = await speak(running.engine, "greedy1", greedy, seed=1)
        other = await speak(running.engine, "greedy2", greedy, seed=1)
        drawn = await speak(running.engine, "drawn", SamplingParams(temperature=1.2), seed=1)
        for name, value in (("temperature", -1.0), ("top_p", 0.0), ("guidance_scale", 0.2)):
            bad = msgspec.convert({name: value}, SamplingParams)
            with pytest.raises(InvalidRequestError, match=name) as caught:
                await speak(running.engine, f"bad {name}", bad)
            assert caught.value.param == name
        return one, other, drawn

    one, other, drawn = running.run(scenario())
    assert one.audio == other.audio
    assert drawn.audio != one.audio


def test_segments_take_their_style_from_the_update_before_them(running: RunningEngine) -> None:
    async def scenario() -> Heard:
        engine = running.engine
        first = {"text": "The lamp is lit. ", "instructions": "very slow"}
        seeded = [SamplingParams(seed=3), SamplingParams(seed=3)]
        await engine.add_request_async(
            "segments", first, final_stage_id=1, resumable=True, sampling_params_list=seeded
        )
        reading = asyncio.create_task(listen(engine, "segments"))
        change = OmniInteractionPrompt("e", "update", {"instructions": "fast"})
        await engine.submit_interaction_async("segments", change)
        await engine.add_streaming_update_async(
            "segments", {"text": "The lamp is lit."}, resumable=False
        )
        return await reading

    heard = running.run(scenario())
    (slow_start, fast_start) = (heard.words[0][0], heard.words[4][0])
    slow, fast = (heard.words[3][1] - slow_start, heard.words[7][1] - fast_start)
    assert len(heard.words) == 8
    assert fast < 0.8 * slow


@pytest.mark.parametrize(("spoken", "words"), [("The lamp is lit. ", None), ("", "slow")])
def test_what_is_skipped_behind_the_last_sound_is_told(
    running: RunningEngine, spoken: str, words: str | None
) -> None:
    async def scenario() -> Heard:
        engine = running.engine
        prompt = {"text": spoken, "instructions": words}
        await engine.add_request_async("skipped", prompt, final_stage_id=1, resumable=True)
        reading = asyncio.create_task(listen(engine, "skipped"))
        await engine.add_streaming_update_async("skipped", {"text": "中中"}, resumable=False)
        return await reading

    heard = running.run(scenario())
    assert heard.warnings == ["skipped 2 characters of Han script"]
    assert bool(heard.audio) == bool(spoken)


def test_a_request_that_is_aborted_leaves_nothing(running: RunningEngine) -> None:
    async def scenario() -> None:
        stream = running.engine.generate(
            "gone", {"text": TEXT * 5, "instructions": "slow"}, final_stage_id=1
        )
        async for output in stream:
            if output.audio is not None:
                break
        await stream.aclose()

    running.run(scenario())
