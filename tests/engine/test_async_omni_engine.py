"""The engine with real worker processes, on the tone pipeline."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from engine.async_omni_engine import AsyncOmniEngine
from engine.config import EngineConfig
from engine.errors import (
    DeadlineExceededError,
    DuplicateRequestError,
    InvalidRequestError,
    OverloadedError,
    RequestAbortedError,
    StageFailedError,
    UnavailableError,
    UnknownRequestError,
)
from engine.messages import Prompt, SamplingParams
from engine.outputs import OmniInteractionPrompt
from engine.trace import current_trace
from tests.engine.running import (
    INSPECT_S,
    QUICK,
    READY_S,
    TIMEOUT_S,
    listen,
    num_restarts,
    pids,
    run,
    running,
    speak,
    tones,
)
from worker.models.sine.adapter import transform_prompt

pytestmark = pytest.mark.process

TEXT = "one two three four five six"
CHUNK_SAMPLES = 1920  # of a step of the tone stage
LONG = " ".join(f"word{i}" for i in range(400))
# Less than a word: a request that nobody reads does not end.
UNREAD = msgspec.structs.replace(QUICK, max_buffered_audio_s=0.05)


def test_many_requests_at_once_each_get_their_own_audio() -> None:
    async def scenario() -> None:
        async with running(tones(2)) as engine:
            texts = [" ".join(["tone" * (i % 3 + 1)] * (i % 7 + 1)) for i in range(60)]
            heard = await asyncio.gather(
                *(speak(engine, f"r{i}", text) for i, text in enumerate(texts))
            )
            alone = {
                text: (await speak(engine, f"alone-{text}", text)).audio for text in set(texts)
            }
            assert [h.audio for h in heard] == [alone[text] for text in texts]

    run(scenario)


def test_a_refused_request_leaves_nothing_behind() -> None:
    async def scenario() -> None:
        async with running(tones()) as engine:
            with pytest.raises(InvalidRequestError, match="something to speak"):
                await speak(engine, "a", " ")
            with pytest.raises(ValueError, match="one entry per stage"):
                await speak(engine, "a", "x", sampling_params_list=[SamplingParams()])
            await speak(engine, "a", "x")

    run(scenario)


def test_a_caller_that_stops_iterating_frees_its_ticket_at_once() -> None:
    async def scenario() -> None:
        async with running(tones(), EngineConfig(max_running=1, max_waiting=0)) as engine:
            stream = engine.generate("a", {"text": LONG})
            await anext(stream)
            with pytest.raises(OverloadedError) as caught:
                await speak(engine, "b", "x")
            assert caught.value.retry_after_s >= 1
            await stream.aclose()
            await speak(engine, "b", "x")

    run(scenario)


def test_an_abort_returns_when_every_stage_has_let_go() -> None:
    async def scenario() -> None:
        async with running(tones()) as engine:
            await engine.add_request_async("a", {"text": LONG}, final_stage_id=1)
            reader = asyncio.create_task(listen(engine, "a"))
            await engine.abort(["a", "never-heard-of"])
            assert not any((await asyncio.to_thread(engine._census)).values())
            with pytest.raises(RequestAbortedError):
                await reader

    run(scenario)


def test_cancelling_an_add_aborts_the_request() -> None:
    async def scenario() -> None:
        async with running(tones()) as engine:
            for number in range(20):
                add = engine.add_request_async(f"r{number}", {"text": LONG}, final_stage_id=1)
                task = asyncio.create_task(add)
                await asyncio.sleep(0)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                await engine.abort([f"r{number}"])

    run(scenario)


def test_a_caller_that_does_not_read_holds_a_bounded_amount_of_audio() -> None:
    async def scenario() -> None:
        config = EngineConfig(max_buffered_audio_s=2.0)
        async with running(tones(), config) as engine:
            text = LONG[: len(LONG) // 4]
            slow = engine.generate("slow", {"text": text})
            await anext(slow)
            await speak(engine, "fast", text)

            def look(core: object) -> tuple[int, int]:
                progress = core._requests["slow"].stages[1]  # type: ignore[attr-defined]
                return progress.num_sent, progress.num_taken

            made, taken = engine._orchestrator.inspect(look).result(INSPECT_S)
            assert made - taken < 2 * 24000 + CHUNK_SAMPLES
            total = 0
            async for output in slow:
                total += output.num_samples
            assert total > 20 * 24000

    run(scenario)


def test_a_second_request_of_an_open_id_is_refused_and_harms_nothing() -> None:
    async def scenario() -> None:
        async with running(tones()) as engine:
            await engine.add_request_async("a", {"text": TEXT}, final_stage_id=1)
            with pytest.raises(DuplicateRequestError):
                await engine.add_request_async("a", {"text": TEXT}, final_stage_id=1)
            assert (await listen(engine, "a")).audio

    run(scenario)


@pytest.mark.parametrize(
    ("arguments", "param"),
    [
        ({"priority": 2**70}, "priority"),
        ({"trace_headers": {"a": object()}}, "trace_headers"),
        ({"prompt": {"text": "x\ud800"}}, "original_prompt"),
        (
            {"sampling_params_list": [SamplingParams(temperature=0.5), SamplingParams()]},
            "temperature",
        ),
        ({"prompt_text": 5}, "prompt_text"),
        ({"trace_headers": {"traceparent": 5}}, "trace_headers"),
        ({"prompt": {"text": "x", 1: "y"}}, "prompt"),
        ({"deadline": "soon"}, "deadline"),
        ({"arrival_time": "now"}, "arrival_time"),
        ({"data_parallel_rank": "first"}, "data_parallel_rank"),
    ],
)
def test_arguments_that_no_stage_can_take_are_refused_and_harm_nobody(
    arguments: dict[str, Any], param: str
) -> None:
    async def scenario() -> None:
        async with running(tones()) as engine:
            given: dict[str, Any] = {"prompt": {"text": "x"}, "final_stage_id": 1} | arguments
            with pytest.raises(InvalidRequestError) as caught:
                await engine.add_request_async("a", **given)
            assert caught.value.param in (param, "prompt")
            assert (await speak(engine, "b", TEXT)).audio

    run(scenario)


def test_outputs_tell_their_prompt_and_what_its_processing_took() -> None:
    async def scenario() -> None:
        async with running(tones()) as engine:
            for given, shown in ((None, TEXT), ("what the user typed", "what the user typed")):
                outputs = [
                    output
                    async for output in engine.generate("a", {"text": TEXT}, prompt_text=given)
                ]
                assert {output.prompt_text for output in outputs} == {shown}
                assert all(0 < o.preprocess_ms <= o.queue_wait_ms for o in outputs)
            registry = engine.metrics.registry
            assert registry.get_sample_value("voxloom_preprocess_seconds_count") == 2

    run(scenario)


def test_an_id_is_free_again_once_its_abort_is_through_and_ends_are_never_mixed_up() -> None:
    async def scenario() -> None:
        async with running(tones()) as engine:
            expected = (await speak(engine, "first", TEXT)).audio
            for _ in range(20):
                stream = engine.generate("a", {"text": LONG})
                await anext(stream)
                await stream.aclose()
                await engine.abort(["a"])
                assert (await speak(engine, "a", TEXT)).audio == expected

    run(scenario)


def test_calls_after_the_end_are_answered() -> None:
    async def scenario() -> None:
        engine = AsyncOmniEngine(tones(), QUICK)
        engine.start()
        await engine.wait_ready(READY_S)
        await engine.shutdown(0.1)
        await engine.abort(["a"])
        with pytest.raises(UnavailableError):
            await speak(engine, "a", TEXT)

    run(scenario)


def test_a_cancelled_add_that_never_began_gives_its_ticket_back() -> None:
    async def scenario() -> None:
        async with running(tones()) as engine:
            first = asyncio.create_task(
                engine.add_request_async("a", {"text": TEXT}, final_stage_id=1)
            )
            second = asyncio.create_task(
                engine.add_request_async("a", {"text": TEXT}, final_stage_id=1)
            )
            await asyncio.sleep(0)
            second.cancel()
            await asyncio.gather(second, return_exceptions=True)
            await first
            assert (await listen(engine, "a")).audio

    run(scenario)


def test_units_that_nobody_reads_are_bounded_too() -> None:
    async def scenario() -> None:
        async with running(tones(), EngineConfig(max_buffered_audio_s=5.0)) as engine:
            await engine.add_request_async("a", {"text": "w " * 20_000})
            await speak(engine, "b", LONG)
            opened = engine._table.find("a")
            assert opened is not None
            assert len(opened.queue._messages) < 10_000
            await engine.abort(["a"])

    run(scenario)


def test_a_deadline_ends_a_request() -> None:
    async def scenario() -> None:
        async with running(tones()) as engine:
            await engine.add_request_async(
                "a", {"text": "x"}, resumable=True, deadline=time.monotonic() + 0.3
            )
            with pytest.raises(DeadlineExceededError):
                await listen(engine, "a")

    run(scenario)


def test_shutdown_lets_running_requests_finish_and_takes_no_new_ones() -> None:
    async def scenario() -> None:
        engine = AsyncOmniEngine(tones(), QUICK)
        engine.start()
        await engine.wait_ready(READY_S)
        await engine.add_request_async("a", {"text": LONG}, final_stage_id=1)
        task = asyncio.create_task(listen(engine, "a"))
        ending = asyncio.create_task(engine.shutdown(TIMEOUT_S))
        await asyncio.sleep(0)
        with pytest.raises(UnavailableError):
            engine.admit()
        assert (await task).audio
        await ending
        await engine.shutdown()  # once more does nothing
        assert not engine.is_ready

    run(scenario)


def test_shutdown_ends_what_outlasts_the_drain() -> None:
    async def scenario() -> None:
        engine = AsyncOmniEngine(tones(), QUICK)
        engine.start()
        await engine.wait_ready(READY_S)
        stream = engine.generate("a", {"text": LONG})
        await anext(stream)
        processes = pids(engine, 0) + pids(engine, 1)
        await engine.shutdown(0.1)
        with pytest.raises(UnavailableError):
            async for _ in stream:
                pass
        for pid in processes:
            with pytest.raises(ProcessLookupError):
                os.kill(pid, 0)

    run(scenario)


HAS_BEGUN, LOOP_HAS_TURNED = threading.Event(), threading.Event()


def transform_slowly(prompt: Prompt) -> Prompt:
    """Ends once the event loop has had a turn meanwhile."""
    HAS_BEGUN.set()
    assert LOOP_HAS_TURNED.wait(INSPECT_S), "the event loop is held"
    return transform_prompt(prompt)


def test_the_event_loop_goes_on_while_a_text_is_processed() -> None:
    async def scenario() -> None:
        HAS_BEGUN.clear()
        LOOP_HAS_TURNED.clear()
        slow = msgspec.structs.replace(
            tones(), prompt_transform_func=f"{__name__}:{transform_slowly.__name__}"
        )
        async with running(slow) as engine:
            spoken = asyncio.create_task(speak(engine, "a", LONG))
            assert await asyncio.to_thread(HAS_BEGUN.wait, INSPECT_S)
            LOOP_HAS_TURNED.set()
            assert (await spoken).audio

    run(scenario)


@pytest.mark.usefixtures("old_objects_aside")
def test_no_turn_of_the_event_loop_is_long_while_long_texts_are_spoken() -> None:
    """By its own processor time: what else the machine does is not its fault."""

    async def scenario() -> None:
        async with running(tones()) as engine:
            worst_s = 0.0
            done = asyncio.Event()

            async def watch() -> None:
                nonlocal worst_s
                while not done.is_set():
                    before_s = time.thread_time()
                    await asyncio.sleep(0.001)
                    worst_s = max(worst_s, time.thread_time() - before_s)

            watcher = asyncio.create_task(watch())
            await asyncio.gather(*(speak(engine, f"r{i}", LONG) for i in range(8)))
            done.set()
            await watcher
            assert worst_s < 1.0

    run(scenario)


# --- streaming updates and interactions ----------------------------------------------------------


def test_a_thousand_one_word_updates_speak_as_the_whole_text() -> None:
    async def scenario() -> None:
        words = [f"w{i % 9}" for i in range(1000)]
        async with running(tones()) as engine:
            whole = await speak(engine, "whole", " ".join(words))
            await engine.add_request_async("s", {"text": ""}, final_stage_id=1, resumable=True)
            reader = asyncio.create_task(listen(engine, "s"))
            for word in words:
                await engine.add_streaming_update_async("s", word + " ")
            await engine.add_streaming_update_async("s", "", resumable=False)
            assert (await reader).audio == whole.audio

    run(scenario)


def test_updates_that_cannot_be_taken_are_refused_and_harm_nothing() -> None:
    async def scenario() -> None:
        async with running(tones(), UNREAD) as engine:
            with pytest.raises(UnknownRequestError):
                await engine.add_streaming_update_async("nobody", "x")
            await engine.add_request_async("closed", {"text": TEXT}, final_stage_id=1)
            with pytest.raises(InvalidRequestError, match="takes no more text"):
                await engine.add_streaming_update_async("closed", "x")
            assert (await listen(engine, "closed")).audio
            await engine.add_request_async("s", {"text": "a "}, final_stage_id=1, resumable=True)
            for wrong in ({"voice": "high"}, {"text": 5}, {"text": "x", "voice": "high"}):
                with pytest.raises(InvalidRequestError, match="segment holds text"):
                    await engine.add_streaming_update_async("s", wrong)
            with pytest.raises(InvalidRequestError) as caught:
                engine.add_streaming_update("s", "x", lora_request="y")
            assert caught.value.param == "lora_request"
            await engine.add_streaming_update_async("s", "b", resumable=False)
            with pytest.raises(InvalidRequestError, match="takes no more text"):
                await engine.add_streaming_update_async("s", "c")
            heard = await listen(engine, "s")
            assert heard.audio == (await speak(engine, "same", "a b")).audio
            with pytest.raises(UnknownRequestError):
                await engine.add_streaming_update_async("s", "too late")

    run(scenario)


def test_updates_racing_with_an_abort_leave_nothing() -> None:
    async def scenario() -> None:
        async with running(tones()) as engine:
            for number in range(30):
                request_id = f"r{number}"
                await engine.add_request_async(
                    request_id, {"text": "a"}, final_stage_id=1, resumable=True
                )
                updates = [
                    engine.add_streaming_update_async(request_id, f"w{i} ") for i in range(5)
                ]
                await asyncio.gather(*updates, engine.abort([request_id]), return_exceptions=True)
                await engine.abort([request_id])

    run(scenario)


def test_interactions_are_answered_among_the_outputs() -> None:
    async def scenario() -> None:
        async with running(tones()) as engine:
            await engine.add_request_async("s", {"text": "a "}, final_stage_id=1, resumable=True)
            reader = asyncio.create_task(listen(engine, "s"))
            for kind, arguments in (
                ("pause", {}),
                ("update", {"voice": "high"}),
                ("flush", {}),
                ("resume", {}),
                ("dance", {}),
            ):
                await engine.submit_interaction_async(
                    "s", OmniInteractionPrompt(f"e-{kind}", kind, arguments)
                )
            await engine.add_streaming_update_async("s", "a", resumable=False)
            heard = await reader
            assert [(a.event_id, a.error is None) for a in heard.answers] == [
                ("e-pause", True),
                ("e-update", True),
                ("e-flush", True),
                ("e-resume", True),
                ("e-dance", False),
            ]
            low = (await speak(engine, "low", "a")).audio
            high = heard.audio[len(low) :]
            assert heard.audio[: len(low)] == low
            assert len(high) == len(low)
            assert high != low

    run(scenario)


def test_what_is_wrong_with_an_interaction_is_answered_in_its_place_and_harms_nothing() -> None:
    async def scenario() -> None:
        async with running(tones()) as engine:
            await engine.add_request_async("s", {"text": "a "}, final_stage_id=1, resumable=True)
            reader = asyncio.create_task(listen(engine, "s"))
            wrong: list[tuple[Any, Any, str | None]] = [
                ("update", {"voice": "nobody"}, "voice"),
                ("update", {1: "x"}, "arguments"),
                ("interrupt", {"played_ms": -1}, "arguments"),
                ("interrupt", {"played_ms": float("nan")}, "arguments"),
                ("interrupt", {"when": 1}, "arguments"),
                ("pause", {"ms": 1}, "arguments"),
                ("flush", None, "arguments"),
                ("dance", {"ms": 1}, "kind"),
                (5, {}, "kind"),
            ]
            for number, (kind, arguments, _param) in enumerate(wrong):
                interaction = OmniInteractionPrompt(f"e{number}", kind, arguments)
                assert engine.submit_interaction("s", interaction) is None
            engine.submit_interaction("s", OmniInteractionPrompt("last", "flush"))
            await engine.add_streaming_update_async("s", "b", resumable=False)
            heard = await reader
            assert [a.event_id for a in heard.answers] == [
                *(f"e{number}" for number in range(len(wrong))),
                "last",
            ]
            for answer, (kind, _arguments, param) in zip(heard.answers, wrong, strict=False):
                assert (answer.kind, answer.code, answer.param) == (kind, "invalid_value", param)
                with pytest.raises(InvalidRequestError):
                    answer.check()
            heard.answers[-1].check()
            assert heard.audio == (await speak(engine, "same", "a b")).audio

    run(scenario)


def test_an_interaction_for_nobody_is_answered_to_whoever_sent_it() -> None:
    async def scenario() -> None:
        async with running(tones()) as engine:
            await speak(engine, "ended", TEXT)
            for request_id in ("nobody", "ended"):
                interaction = OmniInteractionPrompt("e7", "pause")
                refusal = await engine.submit_interaction_async(request_id, interaction)
                assert refusal is not None
                assert (refusal.event_id, refusal.kind) == ("e7", "pause")
                assert refusal.code == "unknown_request"
                with pytest.raises(UnknownRequestError, match="unknown or has ended"):
                    refusal.check()

    run(scenario)


def test_an_interrupt_drops_unread_audio_and_speech_goes_on_after_it() -> None:
    async def scenario() -> None:
        async with running(tones()) as engine:
            await engine.add_request_async("s", {"text": LONG}, final_stage_id=1, resumable=True)
            stream = engine.outputs("s")
            first = await anext(stream)
            await engine.submit_interaction_async("s", OmniInteractionPrompt("i", "interrupt"))
            await engine.add_streaming_update_async("s", "new words", resumable=False)
            outputs = [output async for output in stream]
            number = next(i for i, o in enumerate(outputs) if o.interaction is not None)
            answer = outputs[number].interaction
            assert answer is not None
            sent = sum(o.num_samples for o in (first, *outputs[:number]))
            after = b"".join(bytes(o.audio) for o in outputs[number:] if o.audio is not None)
            assert answer.result["sent_ms"] == pytest.approx(sent * 1000 / 24000, abs=1)
            assert after == (await speak(engine, "alone", "new words")).audio

    run(scenario)


# --- replicas that fail --------------------------------------------------------------------------


@pytest.mark.parametrize("stage_id", [0, 1])
@pytest.mark.parametrize("num_replicas", [1, 2])
@pytest.mark.parametrize("sig", [signal.SIGKILL, signal.SIGSTOP])
def test_a_stream_whose_replica_is_lost_has_the_same_bytes(
    stage_id: int, num_replicas: int, sig: signal.Signals
) -> None:
    async def scenario() -> None:
        config = msgspec.structs.replace(QUICK, max_buffered_audio_s=1.0)
        async with running(tones(num_replicas), config) as engine:
            undisturbed = await speak(engine, "before", LONG)
            stream = engine.generate("a", {"text": LONG})
            audio, num_chunks_after = bytearray(), 0
            async for output in stream:
                audio += output.audio or b""
                if not num_chunks_after and len(audio) > 24000:
                    os.kill(pids(engine, stage_id)[0], sig)
                num_chunks_after += len(audio) > 24000
            assert num_chunks_after > 10, "the kill did not fall between two chunks"
            assert audio == undisturbed.audio
            await engine.wait_ready(READY_S)

    run(scenario)


def test_a_resumable_stream_survives_the_loss_of_both_its_replicas() -> None:
    async def scenario() -> None:
        async with running(tones()) as engine:
            words = [f"w{i % 9}" for i in range(60)]
            undisturbed = await speak(engine, "before", " ".join(words))
            await engine.add_request_async("s", {"text": ""}, final_stage_id=1, resumable=True)
            reader = asyncio.create_task(listen(engine, "s"))
            for number, word in enumerate(words):
                await engine.add_streaming_update_async("s", word + " ")
                if number in (20, 40):
                    os.kill(pids(engine, number // 20 - 1)[0], signal.SIGKILL)
            await engine.add_streaming_update_async("s", "", resumable=False)
            assert (await reader).audio == undisturbed.audio

    run(scenario)


@pytest.mark.parametrize("word", ["raise", "memory", "refuse"])
def test_a_request_that_fails_in_its_stage_fails_alone(word: str) -> None:
    async def scenario() -> None:
        async with running(tones(faulty=True)) as engine:
            good = asyncio.create_task(speak(engine, "good", LONG))
            with pytest.raises(StageFailedError):
                await speak(engine, "bad", f"one {word} two")
            assert (await good).audio
            assert num_restarts(engine, 0) == 0

    run(scenario)


def test_a_workers_log_line_about_a_request_names_its_trace(
    capfd: pytest.CaptureFixture[str],
) -> None:
    trace = "0af7651916cd43dd8448eb211c80319c"

    async def scenario() -> None:
        async with running(tones(faulty=True)) as engine:
            for request_id, arguments in (
                ("named", {"trace_headers": {"traceparent": f"00-{trace}-b7ad6b7169203331-01"}}),
                ("nameless", {}),
            ):
                with pytest.raises(StageFailedError):
                    await speak(engine, request_id, "one raise two", **arguments)
            current_trace.set({"traceparent": f"00-{trace}-b7ad6b7169203331-01"})
            with pytest.raises(StageFailedError):
                await speak(engine, "inherited", "one raise two")

    run(scenario)
    lines = [line for line in capfd.readouterr().err.splitlines() if "a request failed" in line]
    assert [line.partition("request_id=")[2] for line in lines] == [
        f"named trace_id={trace}",
        "nameless",
        f"inherited trace_id={trace}",
    ]


@pytest.mark.parametrize("word", ["die", "hang", "burn"])
def test_a_request_that_takes_its_replica_down_is_tried_twice_and_fails_alone(word: str) -> None:
    async def scenario() -> None:
        async with running(tones(faulty=True)) as engine:
            good = asyncio.create_task(speak(engine, "good", LONG))
            with pytest.raises(StageFailedError, match="failed twice"):
                await speak(engine, "poison", f"{word} two")
            assert (await good).audio == (await speak(engine, "again", LONG)).audio
            assert num_restarts(engine, 0) == 2

    run(scenario)


def test_a_replica_that_fails_to_load_again_is_retried_with_back_off(tmp_path: Path) -> None:
    async def scenario() -> None:
        failures = tmp_path / "failures"
        failures.write_text("0")
        pipeline = tones(faulty=True, options={"failures": str(failures)})
        async with running(pipeline) as engine:
            failures.write_text("2")
            os.kill(pids(engine, 0)[0], signal.SIGKILL)
            assert (await speak(engine, "a", TEXT)).audio
            assert num_restarts(engine, 0) == 3

    run(scenario)


def test_an_engine_whose_model_does_not_load_says_why(tmp_path: Path) -> None:
    async def scenario() -> None:
        failures = tmp_path / "failures"
        failures.write_text("9")
        pipeline = tones(faulty=True, options={"failures": str(failures)})
        engine = AsyncOmniEngine(pipeline, QUICK)
        engine.start()
        with pytest.raises(UnavailableError, match="the model file is broken"):
            await engine.wait_ready(READY_S)
        assert engine.readiness()["ready"] is False
        await engine.shutdown(0.1)

    run(scenario)


def test_scaling_up_and_down_at_run_time_loses_nothing() -> None:
    async def scenario() -> None:
        async with running(tones()) as engine:
            streams = [asyncio.create_task(speak(engine, f"r{i}", LONG)) for i in range(12)]
            engine.scale(1, 3)
            engine.scale(0, 2)
            more = [asyncio.create_task(speak(engine, f"s{i}", LONG)) for i in range(12)]
            await asyncio.wait(streams, return_when=asyncio.FIRST_COMPLETED)
            engine.scale(1, 1)
            engine.scale(0, 1)
            heard = await asyncio.gather(*streams, *more)
            assert len({bytes(h.audio) for h in heard}) == 1

    run(scenario)


@pytest.mark.parametrize(("stage_id", "num_replicas"), [(5, 1), (0, 0)])
def test_scaling_what_is_not_there_is_refused(stage_id: int, num_replicas: int) -> None:
    engine = AsyncOmniEngine(tones())
    with pytest.raises(InvalidRequestError):
        engine.scale(stage_id, num_replicas)
