"""The other families through the whole engine: their prompts, tokens and codecs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.worker.models.lm_codec.speaking import LLASA, OUTETTS, Family, assert_same, speak
from tests.worker.vllm.engines import RunningEngine, running_engine

pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("default")]

TEXTS = ("Hi there.", "Good morning, Anna!")
SCALE = 2.0


@pytest.fixture(scope="module", params=[LLASA, OUTETTS], ids=lambda family: family.description)
def family(request: pytest.FixtureRequest) -> Family:
    chosen: Family = request.param
    return chosen


@pytest.fixture(scope="module")
def description(family: Family, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return family.write_description(tmp_path_factory.mktemp("described"))


@pytest.fixture(scope="module")
def running(family: Family, description: Path) -> Iterator[RunningEngine]:
    with running_engine(family.pipeline(description)) as engine:
        yield engine


def test_what_is_heard_is_what_a_plain_loop_makes_guided_and_not(
    running: RunningEngine, family: Family, description: Path
) -> None:
    asked = [(text, scale) for text in TEXTS for scale in (None, SCALE)]

    async def scenario() -> list[list[Any]]:
        jobs = [
            speak(running.engine, f"{text} {scale}", text, guidance_scale=scale)
            for text, scale in asked
        ]
        return await asyncio.gather(*jobs)

    for (text, scale), chunks in zip(asked, running.run(scenario()), strict=True):
        assert_same(chunks, family.plain_audio(description, text, scale=scale))
