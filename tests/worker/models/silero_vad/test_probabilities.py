"""Probabilities of speech over audio in pieces."""

from __future__ import annotations

import numpy as np
import pytest

from tests.spoken import SENTENCES, conversation, noise, silence, spoken
from worker.models.silero_vad.probabilities import (
    FRAME_SAMPLES,
    SpeechNet,
    SpeechProbabilities,
    model_path,
)

pytestmark = pytest.mark.asr


@pytest.fixture(scope="module")
def net() -> SpeechNet:
    return SpeechNet(model_path())


@pytest.mark.parametrize("size", [1, 160, 511, 512, 513, 4096, 20_001])
def test_pieces_of_any_size_give_what_the_whole_gives(net: SpeechNet, size: int) -> None:
    audio = spoken(SENTENCES[0])[:24_000]
    whole = SpeechProbabilities(net).feed(audio)

    stream = SpeechProbabilities(net)
    pieces = [stream.feed(audio[at : at + size]) for at in range(0, len(audio), size)]

    assert len(whole) == len(audio) // FRAME_SAMPLES
    assert stream.num_pending == len(audio) % FRAME_SAMPLES
    np.testing.assert_allclose(np.concatenate(pieces), whole, atol=1e-5)


def test_a_voice_is_speech_and_silence_and_noise_are_not(net: SpeechNet) -> None:
    voiced = SpeechProbabilities(net).feed(spoken(SENTENCES[0]))

    assert float(np.mean(voiced > 0.5)) > 0.7
    assert SpeechProbabilities(net).feed(silence(5.0)).max() < 0.3
    assert SpeechProbabilities(net).feed(noise(5.0)).max() < 0.5


def test_streams_do_not_know_of_each_other(net: SpeechNet) -> None:
    audio = conversation()[:48_000]
    alone = SpeechProbabilities(net).feed(audio)

    first, second = SpeechProbabilities(net), SpeechProbabilities(net)
    mixed = []
    for at in range(0, len(audio), 1600):
        mixed.append(first.feed(audio[at : at + 1600]))
        second.feed(noise(0.1))

    np.testing.assert_allclose(np.concatenate(mixed), alone, atol=1e-5)
