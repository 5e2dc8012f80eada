"""Hearing with real replicas: recordings, live audio, and replicas that die on the way."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import numpy as np
import pytest

from benchmarks.word_errors import num_errors, words
from engine.async_omni_engine import AsyncOmniEngine
from engine.config import EngineConfig
from engine.outputs import OmniInteractionPrompt
from engine.pipeline import load_pipeline
from server.audio.decoder import Samples
from server.transcriber import Transcription
from tests.engine.running import pids, run_for, running
from tests.spoken import SENTENCES, conversation, silence, spoken

pytestmark = [pytest.mark.asr, pytest.mark.process]

# A recognition step may take long on a busy machine, and pings are answered between steps.
CONFIG = EngineConfig(heartbeat_interval_s=0.5, heartbeat_timeout_s=30.0, restart_backoff_s=0.1)
LIMIT_S = 300.0
TEXT = " ".join(SENTENCES)
PIECE = 1600


class Recording:
    """Audio that is read like a file."""

    def __init__(self, audio: Samples) -> None:
        self._audio = audio

    async def read(self, num_samples: int) -> Samples:
        taken, self._audio = self._audio[:num_samples], self._audio[num_samples:]
        return taken


async def transcribe(
    engine: AsyncOmniEngine, request_id: str, audio: Samples, kill: int | None = None
) -> str:
    """The text of ``audio``; ``kill`` is the stage whose replica dies after the first passage."""
    job = Transcription(engine, request_id, Recording(audio))
    texts = []
    async for passage in job.passages({"language": "en"}, engine.admit(), None):
        texts += [segment["text"] for segment in passage.segments]
        if kill is not None:
            os.kill(pids(engine, kill)[0], signal.SIGKILL)
            kill = None
    return "".join(texts)


@pytest.mark.parametrize("stage_id", [0, 1])
def test_the_death_of_a_replica_changes_no_word(stage_id: int) -> None:
    audio = np.concatenate([conversation(), silence(3.0), conversation()])

    async def scenario() -> tuple[str, str]:
        async with running(load_pipeline("transcribe"), CONFIG) as engine:
            undisturbed = await transcribe(engine, "a", audio)
            return undisturbed, await transcribe(engine, "b", audio, kill=stage_id)

    undisturbed, disturbed = run_for(scenario, LIMIT_S)

    assert disturbed == undisturbed
    assert num_errors(words(f"{TEXT} {TEXT}"), words(disturbed)) <= 6


async def listen(engine: AsyncOmniEngine, request_id: str) -> list[dict[str, Any]]:
    """What was heard and written down, to the end of the request."""
    found = []
    async for output in engine.outputs(request_id):
        heard = output.payload.get("heard") or output.payload.get("transcript")
        if heard is not None:
            found.append(heard | {"stage_id": output.stage_id})
    return found


async def open_live(engine: AsyncOmniEngine, request_id: str, **prompt: Any) -> None:
    await engine.add_request_async(
        request_id,
        {"mode": "live"} | prompt,
        final_stage_id=1,
        final_output_stage_ids=[0, 1],
        resumable=True,
    )


async def feed(engine: AsyncOmniEngine, request_id: str, audio: Samples, first: int = 0) -> None:
    for at in range(0, len(audio), PIECE):
        segment = {"audio": audio[at : at + PIECE], "first_sample": first + at}
        await engine.add_streaming_update_async(request_id, segment)


def test_live_turns_are_told_of_and_written_down() -> None:
    async def scenario() -> list[dict[str, Any]]:
        async with running(load_pipeline("transcribe"), CONFIG) as engine:
            detection = {"silence_duration_ms": 600}
            await open_live(engine, "a", detection=detection, guesses=True, language="en")
            reading = asyncio.create_task(listen(engine, "a"))
            await feed(engine, "a", conversation())
            await engine.add_streaming_update_async("a", {}, resumable=False)
            return await reading

    found = run_for(scenario, LIMIT_S)

    told = [f["kind"] for f in found if f["stage_id"] == 0 and f["kind"] != "guess"]
    written = [f for f in found if f["stage_id"] == 1]
    assert told == ["started", "stopped"] * len(SENTENCES)
    for one, text in zip(written, SENTENCES, strict=True):
        assert num_errors(words(text), words(one["text"])) <= 1
    stops = [f for f in found if f["stage_id"] == 0 and f["kind"] == "stopped"]
    assert [w["last_sample"] for w in written] == [s["last_sample"] for s in stops]


def test_turns_of_the_callers_own_end_with_a_flush() -> None:
    async def scenario() -> list[dict[str, Any]]:
        async with running(load_pipeline("transcribe"), CONFIG) as engine:
            await open_live(engine, "a")
            reading = asyncio.create_task(listen(engine, "a"))
            first = 0
            for number, text in enumerate(SENTENCES[:2]):
                await feed(engine, "a", spoken(text), first)
                first += len(spoken(text))
                flush = OmniInteractionPrompt(f"e{number}", "flush")
                await engine.submit_interaction_async("a", flush)
            await engine.add_streaming_update_async("a", {}, resumable=False)
            return await reading

    found = run_for(scenario, LIMIT_S)

    written = [f["text"] for f in found if f["stage_id"] == 1]
    assert len(written) == 2
    for one, text in zip(written, SENTENCES, strict=False):
        assert num_errors(words(text), words(one)) <= 1


def test_a_live_turn_survives_the_death_of_the_stage_that_heard_it() -> None:
    async def scenario() -> list[dict[str, Any]]:
        async with running(load_pipeline("transcribe"), CONFIG) as engine:
            await open_live(engine, "a", detection={"silence_duration_ms": 600})
            reading = asyncio.create_task(listen(engine, "a"))
            half = len(conversation()) // 2
            await feed(engine, "a", conversation()[:half])
            os.kill(pids(engine, 0)[0], signal.SIGKILL)
            await feed(engine, "a", conversation()[half:], half)
            await engine.add_streaming_update_async("a", {}, resumable=False)
            return await reading

    found = run_for(scenario, LIMIT_S)

    written = " ".join(f["text"] for f in found if f["stage_id"] == 1)
    assert num_errors(words(TEXT), words(written)) <= 4
