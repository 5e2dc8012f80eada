"""Turns in live audio."""

from __future__ import annotations

import numpy as np
import pytest

from tests.spoken import RATE, SENTENCES, Samples, conversation, noise, silence, spoken
from worker.models.silero_vad.detection import Detection
from worker.models.silero_vad.listener import MAX_TURN_SAMPLES, Heard, Listener
from worker.models.silero_vad.probabilities import SpeechNet, model_path

pytestmark = pytest.mark.asr

VAD = Detection(silence_duration_ms=600)


@pytest.fixture(scope="module")
def net() -> SpeechNet:
    return SpeechNet(model_path())


def feed(listener: Listener, audio: Samples, size: int = 800) -> list[Heard]:
    return [h for at in range(0, len(audio), size) for h in listener.feed(audio[at : at + size])]


def edges(heard: list[Heard]) -> list[tuple[str, int, int]]:
    return [(h.kind, h.first_sample, h.last_sample) for h in heard]


def test_each_sentence_is_a_turn_with_its_prefix_and_its_silence(net: SpeechNet) -> None:
    audio = conversation()

    heard = feed(Listener(net, VAD), audio)

    assert [h.kind for h in heard] == ["started", "stopped"] * len(SENTENCES)
    begin = 0
    for started, stopped, sentence in zip(heard[::2], heard[1::2], SENTENCES, strict=True):
        begin += RATE
        loud = np.flatnonzero(np.abs(spoken(sentence)) > 0.03)
        assert started.first_sample == stopped.first_sample
        assert abs(started.first_sample + 0.3 * RATE - (begin + loud[0])) < 0.1 * RATE
        assert abs(stopped.last_sample - 0.6 * RATE - (begin + loud[-1])) < 0.2 * RATE
        begin += len(spoken(sentence))
        speech = audio[stopped.first_sample : stopped.last_sample]
        np.testing.assert_array_equal(stopped.speech, speech)


def test_how_the_audio_is_cut_into_pieces_changes_nothing(net: SpeechNet) -> None:
    audio = conversation()
    whole = edges(Listener(net, VAD).feed(audio))

    assert edges(feed(Listener(net, VAD), audio, 320)) == whole
    assert edges(feed(Listener(net, VAD), audio, 1601)) == whole


def test_a_turn_is_told_of_within_a_tenth_of_a_second_of_its_first_sound(net: SpeechNet) -> None:
    audio = np.concatenate([silence(1.0), spoken(SENTENCES[0])])
    first_sound = int(np.argmax(np.abs(audio) > 0.05))

    started = feed(Listener(net, VAD), audio, 160)[0]

    assert started.last_sample - first_sound < 0.1 * RATE


def test_silence_and_noise_are_no_turns_and_take_no_memory(net: SpeechNet) -> None:
    listener = Listener(net, VAD)

    assert feed(listener, np.concatenate([silence(5.0), noise(5.0), silence(5.0)])) == []
    assert sum(len(piece) for piece in listener._pieces) < RATE


def test_clicks_knocks_and_keys_are_no_turns(net: SpeechNet) -> None:
    generator = np.random.default_rng(2)
    decay = np.exp(-np.arange(RATE // 4) / 800).astype(np.float32)
    knocks = [
        *(0.8 * noise(0.25, 1.0) * decay for _ in range(5)),
        *(0.5 * noise(0.02, 1.0) for _ in range(5)),
        *(np.full(1, 0.9, np.float32) for _ in range(5)),
    ]
    audio = [part for knock in knocks for part in (silence(generator.uniform(0.1, 0.5)), knock)]

    assert feed(Listener(net, VAD), np.concatenate([*audio, silence(1.0)])) == []


def test_a_guess_holds_all_speech_of_the_turn_that_it_was_right_about(net: SpeechNet) -> None:
    heard = feed(Listener(net, VAD, guesses=True), conversation())

    stops = [h for h in heard if h.kind == "stopped"]
    guesses = {h.guess: h for h in heard if h.kind == "guess"}
    assert len(stops) == len(SENTENCES)
    for stop in stops:
        guess = guesses[stop.guess]
        assert guess.speech is not None
        assert stop.speech is not None
        # It is told long before the turn is over, with the same speech but for silence.
        assert stop.last_sample - guess.last_sample > 0.4 * RATE
        np.testing.assert_array_equal(stop.speech[: len(guess.speech)], guess.speech)


def test_a_commit_ends_a_turn_at_once(net: SpeechNet) -> None:
    listener = Listener(net, VAD)
    audio = np.concatenate([silence(1.0), spoken(SENTENCES[0])[: 2 * RATE]])
    heard = feed(listener, audio)

    heard += listener.commit()

    assert [h.kind for h in heard] == ["started", "stopped"]
    assert heard[1].is_committed
    assert heard[1].last_sample == len(audio)
    assert listener.commit() == []


def test_the_end_of_audio_ends_a_turn_and_makes_none_of_silence(net: SpeechNet) -> None:
    speaking, silent = Listener(net, VAD), Listener(net, VAD)
    feed(speaking, conversation()[: 3 * RATE])
    feed(silent, silence(2.0))

    assert [h.kind for h in speaking.finish()] == ["stopped"]
    assert silent.finish() == []


def test_without_detection_a_turn_is_what_comes_before_a_commit(net: SpeechNet) -> None:
    listener = Listener(net, None, start=RATE)

    assert feed(listener, conversation()) == []
    [turn] = listener.commit()
    assert edges([turn]) == [("stopped", RATE, RATE + len(conversation()))]
    np.testing.assert_array_equal(turn.speech, conversation())
    assert listener.commit() == []


def test_what_is_cleared_is_in_no_turn(net: SpeechNet) -> None:
    listener = Listener(net, None)
    feed(listener, noise(2.0))
    listener.clear()
    feed(listener, spoken(SENTENCES[0]))

    [turn] = listener.commit()

    np.testing.assert_array_equal(turn.speech, spoken(SENTENCES[0]))
    assert turn.first_sample == 2 * RATE


def test_detection_can_be_switched_on_and_off_on_the_way(net: SpeechNet) -> None:
    listener = Listener(net, None)
    assert feed(listener, conversation()) == []
    listener.clear()
    listener.set_detection(VAD)
    heard = feed(listener, conversation())
    listener.set_detection(None)

    assert [h.kind for h in heard] == ["started", "stopped"] * len(SENTENCES)
    assert heard[0].first_sample > len(conversation())
    assert feed(listener, conversation()) == []


@pytest.mark.parametrize("detection", [None, VAD])
def test_a_turn_without_a_pause_is_cut_before_it_takes_all_memory(
    net: SpeechNet, detection: Detection | None
) -> None:
    sentence = spoken(SENTENCES[0])
    voice = sentence[int(0.3 * RATE) : int(2.5 * RATE)]
    listener = Listener(net, detection)

    heard = feed(listener, np.tile(voice, 60), RATE)

    stops = [h for h in heard if h.kind == "stopped"]
    assert stops
    assert all(h.last_sample - h.first_sample <= MAX_TURN_SAMPLES + RATE for h in stops)
    assert sum(len(piece) for piece in listener._pieces) <= MAX_TURN_SAMPLES + RATE
