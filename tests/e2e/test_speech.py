"""English speech through the whole server, with the default pipeline."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.e2e.server_process import ServerProcess, serving

pytestmark = [pytest.mark.process, pytest.mark.model]

RATE = 24000
OPENAI_VOICES = [
    "alloy",
    "ash",
    "ballad",
    "coral",
    "echo",
    "fable",
    "onyx",
    "nova",
    "sage",
    "shimmer",
    "verse",
    "marin",
    "cedar",
]


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with serving() as server:
        yield server


def test_a_sentence_is_spoken_at_a_natural_pace_and_repeatably(server: ServerProcess) -> None:
    text = "The quick brown fox jumps over the lazy dog."
    first, second = (server.speak(text, seed=1).read() for _ in range(2))

    assert 2.0 < len(first) / 2 / RATE < 4.5
    assert first == second


def test_speed_changes_the_duration(server: ServerProcess) -> None:
    slow, fast = (len(server.speak("Good morning.", speed=s).read()) for s in (0.5, 2.0))

    assert slow > 2.5 * fast


@pytest.mark.parametrize("voice", OPENAI_VOICES)
def test_each_of_openais_voices_speaks(server: ServerProcess, voice: str) -> None:
    assert len(server.speak("Hello.", voice=voice).read()) > RATE // 4


def test_what_was_skipped_is_told_in_a_header(server: ServerProcess) -> None:
    answer = server.speak("Hello 😊 there.")
    answer.read()

    assert answer.status == 200
    assert answer.getheader("x-voxloom-warnings")


@pytest.mark.parametrize("text", ["...", "\u200b\u200d", "—"])
def test_nothing_to_speak_is_a_400(server: ServerProcess, text: str) -> None:
    answer = server.speak(text)

    assert answer.status == 400
    assert json.loads(answer.read())["error"]["param"] == "input"


def test_words_are_told_as_they_were_written(server: ServerProcess) -> None:
    text = "It cost $3.50 — 😊 not 1,000 euros — at www.example.org, Mr. Smith!"
    answer = server.speak(text, timestamp_granularities=["word"])
    body = json.loads(answer.read())

    words = [text[word["start_char"] : word["end_char"]] for word in body["words"]]
    assert words == [word["word"] for word in body["words"]]
    assert words == [word for word in text.split(" ") if word not in ("—", "😊")]
    times = [time for word in body["words"] for time in (word["start_ms"], word["end_ms"])]
    assert times == sorted(times)
    assert times[-1] <= body["duration_ms"]
