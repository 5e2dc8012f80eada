"""What a listener understands: speech from the server, written down again by Whisper."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from openai import OpenAI

from benchmarks.recogniser import Recogniser
from benchmarks.word_errors import num_errors, words
from tests.clients.speech import Format, hear

pytestmark = pytest.mark.asr

TEXTS = [
    "The train leaves at half past nine from the station near the river.",
    "Could you tell me how to get to the museum, please?",
    "My sister bought a red coat and two pairs of shoes last Saturday.",
    "The weather will be cold and windy tomorrow, with some rain in the afternoon.",
]


@pytest.fixture(scope="module")
def recogniser() -> Recogniser:
    return Recogniser()


def speak(client: OpenAI, text: str, fmt: Format = "pcm") -> bytes:
    speech = client.audio.speech.create(
        model="tts-1", voice="alloy", input=text, response_format=fmt, extra_body={"seed": 1}
    )
    return speech.content


def check_heard(recogniser: Recogniser, text: str, body: bytes, fmt: Format = "pcm") -> None:
    """Assert that at most one word of ``text`` is heard as another."""
    heard = hear(body, fmt)
    written = recogniser.hear(heard.samples.astype(np.float32), heard.sample_rate)
    assert num_errors(words(text), words(written)) <= 1, written


def test_each_of_several_at_once_hears_its_own_words(
    client: OpenAI, recogniser: Recogniser
) -> None:
    with ThreadPoolExecutor(len(TEXTS)) as threads:
        bodies = list(threads.map(lambda text: speak(client, text), TEXTS))

    for text, body in zip(TEXTS, bodies, strict=True):
        check_heard(recogniser, text, body)


@pytest.mark.parametrize("fmt", ["mp3", "opus", "aac"])
def test_coding_keeps_every_word(client: OpenAI, recogniser: Recogniser, fmt: Format) -> None:
    check_heard(recogniser, TEXTS[0], speak(client, TEXTS[0], fmt), fmt)


def test_a_long_text_is_spoken_to_its_end(client: OpenAI, recogniser: Recogniser) -> None:
    text = " ".join(TEXTS)

    check_heard(recogniser, text, speak(client, text))
