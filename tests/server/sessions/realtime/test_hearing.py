"""What the recogniser is told beforehand, and who ends the turns that it writes down."""

from __future__ import annotations

from typing import Any

import pytest

from server.sessions.realtime.effects import (
    ChangeListening,
    Hints,
    Recognise,
    StartListening,
    StopListening,
)
from tests.server.sessions.realtime.driving import Client, types

KNOWN: dict[str, Any] = {
    "language": "en",
    "languages": ["en", "de"],
    "prompt": "A tour of the town.",
    "keywords": ["museum", "Guggenheim"],
}


def transcribe(client: Client, **options: Any) -> list[dict[str, Any]]:
    return client.update(audio={"input": {"transcription": options}})


def test_a_language_is_cleared_by_null_and_by_nothing() -> None:
    client = Client()
    for nothing in (None, ""):
        transcribe(client, language="en")
        (shown,) = transcribe(client, language=nothing)
        assert shown["session"]["audio"]["input"]["transcription"]["language"] is None


@pytest.mark.parametrize("kind", ["realtime", "transcription"])
def test_all_that_is_known_of_a_turn_reaches_its_recogniser(kind: str) -> None:
    client = Client(kind=kind)
    client.append(100)
    assert client.last(StartListening).options.hints == Hints()
    (shown,) = transcribe(client, model="gpt-transcribe", **KNOWN)
    assert KNOWN.items() <= shown["session"]["audio"]["input"]["transcription"].items()
    assert client.last(ChangeListening).options.hints == Hints(**KNOWN)
    client.detect(off=True)
    client.append(500, level=900)
    client.say("input_audio_buffer.commit")
    assert client.last(Recognise).hints == Hints(**KNOWN)


MODELS = ["gpt-realtime-whisper", "gpt-live-transcribe-2026-01-01"]


@pytest.mark.parametrize("model", MODELS)
def test_a_model_without_endpointing_leaves_turns_to_the_client(model: str) -> None:
    client = Client(kind="transcription")
    client.append(100)
    (shown,) = transcribe(client, model=model)
    assert shown["session"]["audio"]["input"]["turn_detection"] is None
    assert client.count(StopListening) == 1
    client.append(500, level=900)
    assert types(client.say("input_audio_buffer.commit"))[0] == "input_audio_buffer.committed"
    assert client.count(StartListening) == 1


@pytest.mark.parametrize("model", MODELS)
def test_a_client_that_wants_its_turns_found_gets_that_with_any_model(model: str) -> None:
    client = Client(kind="transcription")
    detection = {"type": "server_vad", "silence_duration_ms": 350}
    heard = {"transcription": {"model": model}, "turn_detection": detection}
    (shown,) = client.update(audio={"input": heard})
    assert shown["session"]["audio"]["input"]["turn_detection"]["silence_duration_ms"] == 350


def test_a_conversation_finds_turns_whatever_writes_them_down() -> None:
    client = Client()
    (shown,) = transcribe(client, model=MODELS[0])
    assert shown["session"]["audio"]["input"]["turn_detection"]["type"] == "server_vad"
