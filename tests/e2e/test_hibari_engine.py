"""The default voice through the whole engine: the same bytes at any load, on any replica."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import msgspec
import numpy as np
import pytest

from engine.async_omni_engine import AsyncOmniEngine
from engine.errors import InvalidRequestError
from engine.messages import SamplingParams
from engine.orchestrator.core import OrchestratorCore
from engine.outputs import OmniInteractionPrompt
from engine.pipeline import PipelineConfig, load_pipeline
from tests.engine.running import QUICK, Heard, listen, pids, run, running, speak

pytestmark = [pytest.mark.process, pytest.mark.model]

RATE = 24000
LOOK_S = 60.0
TEXT = (
    "The harbour was quiet that morning. Two boats came in before eight, and nobody had seen them "
    "leave! Was it the fog, or something else? By noon everyone in the village had an opinion."
)
SEEDED = [SamplingParams(seed=5), SamplingParams()]


def hibari(num_replicas: int = 1) -> PipelineConfig:
    pipeline = load_pipeline("hibari")
    stages = [msgspec.structs.replace(s, num_replicas=num_replicas) for s in pipeline.stages]
    return msgspec.structs.replace(pipeline, stages=tuple(stages))


async def say(engine: AsyncOmniEngine, request_id: str, text: str = TEXT, **prompt: Any) -> Heard:
    heard = Heard()
    stream = engine.generate(request_id, {"text": text, **prompt}, sampling_params_list=SEEDED)
    async for output in stream:
        heard.take(output)
    return heard


def test_bytes_do_not_depend_on_load_or_replica_and_batches_have_strict_subsets() -> None:
    async def scenario() -> None:
        async with running(hibari(2)) as engine:
            alone = await say(engine, "alone")
            crowd = await asyncio.gather(*(say(engine, f"r{i}") for i in range(16)))
            assert {bytes(heard.audio) for heard in crowd} == {bytes(alone.audio)}
            other = await speak(engine, "unseeded", TEXT)
            assert other.audio != alone.audio
            assert len(other.audio) == len(alone.audio)
            assert engine.snapshot.stages[1].counters.num_subset_steps > 0

    run(scenario)


@pytest.mark.parametrize("stage_id", [0, 1])
def test_a_stream_goes_on_with_the_same_bytes_when_its_replica_is_killed(stage_id: int) -> None:
    async def scenario() -> None:
        async with running(hibari(2)) as engine:
            text = " ".join([TEXT] * 12)
            undisturbed = await say(engine, "before", text)
            heard, num_at_kill = Heard(), 0
            stream = engine.generate("a", {"text": text}, sampling_params_list=SEEDED)
            async for output in stream:
                heard.take(output)
                if heard.num_chunks == 5 and not num_at_kill:
                    os.kill(pids(engine, stage_id)[0], signal.SIGKILL)
                    num_at_kill = heard.num_chunks
            assert 0 < num_at_kill < heard.num_chunks
            assert heard.audio == undisturbed.audio
            assert heard.words == undisturbed.words
            await engine.wait_ready(60)

    run(scenario)


def test_a_long_text_is_not_read_again_from_its_start_when_prosody_is_replaced() -> None:
    """Rows of prosody's steps: one a sentence, and no more than a few of them twice."""

    def num_rows(core: OrchestratorCore) -> int:
        return core.counters.stages[0].num_batch_rows

    async def scenario() -> None:
        config = msgspec.structs.replace(QUICK, max_buffered_audio_s=1.0)
        async with running(hibari(1), config) as engine:
            stream = engine.generate("a", {"text": "This is a sentence. " * 40})
            audio_s = 0.0
            was_killed = False
            async for output in stream:
                audio_s += output.num_samples / RATE
                if audio_s > 30 and not was_killed:
                    was_killed = True
                    os.kill(pids(engine, 0)[0], signal.SIGKILL)
            assert was_killed
            assert engine.snapshot.counters.num_replays > 0
            # Not of the snapshot: that may be a tenth of a second old.
            assert 40 <= engine._orchestrator.inspect(num_rows).result(LOOK_S) <= 44

    run(scenario)


def test_text_word_by_word_sounds_as_the_whole_text() -> None:
    async def scenario() -> None:
        async with running(hibari()) as engine:
            whole = await say(engine, "whole")
            await engine.add_request_async(
                "s", {"text": ""}, sampling_params_list=SEEDED, final_stage_id=1, resumable=True
            )
            reader = asyncio.create_task(listen(engine, "s"))
            for word in TEXT.split(" "):
                await engine.add_streaming_update_async("s", word + " ")
            await engine.add_streaming_update_async("s", "", resumable=False)
            pieces = await reader
            assert pieces.audio == whole.audio
            assert pieces.words == whole.words

    run(scenario)


def test_words_cover_the_text_in_order_and_lie_within_the_audio() -> None:
    async def scenario() -> None:
        async with running(hibari()) as engine:
            heard = await say(engine, "a")
            spoken = [TEXT[first:last] for _, _, first, last in heard.words]
            assert spoken == TEXT.split(" ")
            starts = [word[0] for word in heard.words]
            ends = [word[1] for word in heard.words]
            assert starts == sorted(starts)
            assert all(end > start for start, end in zip(starts, ends, strict=True))
            assert ends[-1] * 2 <= len(heard.audio)

    run(scenario)


def test_the_leading_silence_is_cut_to_about_50_ms() -> None:
    async def scenario() -> None:
        async with running(hibari()) as engine:
            for text in ("Hello.", "Good morning, everyone.", "Please close the front door."):
                samples = np.frombuffer(bytes((await say(engine, text, text)).audio), np.int16)
                level = np.abs(samples.astype(np.float64))
                onset_s = np.flatnonzero(level > 0.05 * level.max())[0] / RATE
                assert 0.01 <= onset_s <= 0.13

    run(scenario)


def test_a_book_starts_as_soon_as_a_line_and_is_not_read_ahead_of_its_listener() -> None:
    async def scenario() -> None:
        async with running(hibari()) as engine:
            stream = engine.generate("book", {"text": " ".join([TEXT] * 500)})
            await anext(stream)

            def look(core: Any) -> int:
                return len(core._requests["book"].stages[1].inputs)

            await say(engine, "other")
            # Four sentences may wait; what the stage before made while its pause was on the way
            # comes on top. The book has 2,000.
            assert engine._orchestrator.inspect(look).result(LOOK_S) <= 60
            await stream.aclose()

    run(scenario)


def test_speed_changes_the_length_and_the_voice_the_sound() -> None:
    async def scenario() -> None:
        async with running(hibari()) as engine:
            lengths = [
                len((await say(engine, f"s{speed}", speed=speed)).audio)
                for speed in (0.25, 0.5, 1.0, 2.0, 4.0)
            ]
            assert lengths == sorted(lengths, reverse=True)
            assert lengths[1] == pytest.approx(2 * lengths[2], rel=0.1)

    run(scenario)


@pytest.mark.parametrize(
    ("prompt", "param"),
    [
        ({"text": "😀😀"}, "input"),
        ({"text": "…?!"}, "input"),
        ({"text": 5}, "input"),
        ({"text": "x", "voice": "nobody"}, "voice"),
        ({"text": "x", "speed": 5}, "speed"),
        ({"text": "x", "speed": float("nan")}, "speed"),
        ({"text": "x", "speed": True}, "speed"),
        ({"text": "x", "language": "tlh"}, "language"),
        ({"text": "x", "pitch": 2}, "pitch"),
    ],
)
def test_a_wrong_prompt_is_refused_by_name(prompt: dict[str, Any], param: str) -> None:
    async def scenario() -> None:
        engine = AsyncOmniEngine(hibari())
        with pytest.raises(InvalidRequestError) as caught:
            await engine.add_request_async("a", prompt, final_stage_id=1)
        assert caught.value.param == param

    run(scenario)


def test_an_interrupt_tells_what_was_sent_to_the_word() -> None:
    async def scenario() -> None:
        async with running(hibari()) as engine:
            await engine.add_request_async(
                "s", {"text": TEXT + " "}, final_stage_id=1, resumable=True
            )
            stream = engine.outputs("s")
            heard = Heard()
            while len(heard.audio) < 2 * RATE:
                heard.take(await anext(stream))
            interrupt = OmniInteractionPrompt("i", "interrupt", {"played_ms": 600})
            await engine.submit_interaction_async("s", interrupt)
            await engine.add_streaming_update_async("s", "Stop.", resumable=False)
            async for output in stream:
                heard.take(output)
            (answer,) = heard.answers
            sent = answer.result["sent_ms"] * RATE // 1000
            complete = [word for word in heard.words if word[1] <= sent]
            assert answer.result["sent_chars"] == complete[-1][3]
            heard_words = [word for word in heard.words if word[1] <= 0.6 * RATE]
            assert answer.result["heard_chars"] == heard_words[-1][3]

    run(scenario)
