"""Word times against the sound itself: onsets of words between pauses, found by their energy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from engine.async_omni_engine import AsyncOmniEngine
from engine.messages import SamplingParams
from engine.pipeline import load_pipeline
from tests.engine.running import run, running, speak

pytestmark = [pytest.mark.process, pytest.mark.model]

RATE = 24000
SEEDED = [SamplingParams(seed=1), SamplingParams(seed=1)]
# Words whose first sound is as loud as a stop or a vowel: energy cannot tell where an "f" begins.
WORDS = [
    word
    for line in (
        "apple table garden pencil dinner button copper tiger basket doctor bottle candle",
        "dragon turkey picture better pocket paper captain carpet butter ticket cotton",
        "packet target bucket cabin gallon pepper castle partner painter daughter",
        "gardener building banker corner country cousin question",
    )
    for word in line.split(" ")
]
# A pause is at least this long, and a word reaches this part of its peak within a few ms.
_QUIET_S = 0.015
_LOUD = 0.06
_WITHIN_S = 0.085


def energy(samples: npt.NDArray[np.int16]) -> npt.NDArray[np.float64]:
    """Level [n] around each sample, over 5 ms."""
    width = RATE // 200
    mean = np.convolve(samples.astype(np.float64) ** 2, np.ones(width) / width, "same")
    level: npt.NDArray[np.float64] = np.sqrt(mean)
    return level


def onset(level: npt.NDArray[np.float64], start: int, end: int) -> int:
    """Where the sound of the word at ``start`` begins: behind the last quiet before it."""
    threshold = _LOUD * level[start:end].max()
    quiet = round(_QUIET_S * RATE)
    at = start + round(_WITHIN_S * RATE)
    while at > quiet and level[at - quiet : at].max() > threshold:
        at -= RATE // 1000
    return at


async def errors_s(engine: AsyncOmniEngine, texts: list[str]) -> list[float]:
    """How much later than it is said each word begins to sound."""
    found = []
    for number, text in enumerate(texts):
        heard = await speak(engine, str(number), text, sampling_params_list=SEEDED)
        level = energy(np.frombuffer(bytes(heard.audio), np.int16))
        found += [(onset(level, first, last) - first) / RATE for first, last, _, _ in heard.words]
    return found


def test_words_begin_when_they_are_said_to() -> None:
    lists = [WORDS[start : start + 5] for start in range(0, len(WORDS), 5)]
    reversed_lists = [words[::-1] for words in lists]

    async def scenario() -> list[float]:
        async with running(load_pipeline("hibari")) as engine:
            return await errors_s(
                engine,
                [
                    separator.join(words).capitalize() + "."
                    for separator in (".\n", ", ", "; ")
                    for words in (*lists, *reversed_lists)
                ],
            )

    found = np.array(run(scenario))
    assert len(found) >= 200
    assert np.abs(found).mean() <= 0.025
    assert abs(np.median(found)) <= 0.0125
    assert np.quantile(np.abs(found), 0.95) <= 0.05
