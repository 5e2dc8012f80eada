"""Word times in the answers of ``POST /v1/audio/speech``."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from server.app import create_app
from server.settings import ServerSettings
from tests.server.asgi_client import Answer, post_json
from tests.server.audio.decoding import decode
from tests.server.fake_engine import CHUNK_SAMPLES, RATE, SAMPLES_PER_CHAR, FakeEngine, Script, sine

SPEECH = "/v1/audio/speech"
TEXT = "Hellö  $3.50!"
LATE = 2 * CHUNK_SAMPLES + 100
WORDS = ((240, 2400, 0, 5), (LATE, LATE + 1200, 7, 13))
TOLD = [
    {"word": "Hellö", "start_ms": 10, "end_ms": 100, "start_char": 0, "end_char": 5},
    {"word": "$3.50!", "start_ms": 164, "end_ms": 214, "start_char": 7, "end_char": 13},
]


def ask(**fields: Any) -> Answer:
    app = create_app(FakeEngine(Script(words=WORDS)), ServerSettings(access_log=False))
    body = {"input": TEXT, "timestamp_granularities": ["word"]} | fields
    return post_json(app, SPEECH, body)


@pytest.mark.parametrize("fmt", ["mp3", "opus", "aac", "flac", "wav"])
def test_without_streaming_the_answer_is_json_with_audio_and_words(fmt: str) -> None:
    answer = ask(response_format=fmt)

    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert int(answer.headers["content-length"]) == len(answer.body)
    body = answer.json()
    heard = decode(base64.b64decode(body.pop("audio")))
    assert body.pop("sample_rate") in (24000, 48000)
    wanted_ms = len(TEXT) * SAMPLES_PER_CHAR * 1000 // RATE
    assert body.pop("decoder_delay_ms") == {"mp3": 46, "aac": 21}.get(fmt, 0)
    assert body == {"format": fmt, "duration_ms": wanted_ms, "words": TOLD}
    assert len(heard.samples) / heard.sample_rate == pytest.approx(wanted_ms / 1000, abs=0.13)


def test_events_tell_words_before_the_audio_in_which_they_begin() -> None:
    answer = ask(response_format="pcm", stream_format="sse")
    events = [json.loads(line[6:]) for line in answer.body.decode().split("\n\n") if line]

    num_bytes, told = 0, []
    for event in events:
        if event["type"] == "speech.audio.timestamps":
            assert all(word["start_ms"] >= num_bytes // 2 * 1000 // RATE for word in event["words"])
            told += event["words"]
            assert event["decoder_delay_ms"] == 0
        elif event["type"] == "speech.audio.delta":
            num_bytes += len(base64.b64decode(event["audio"]))
    assert told == TOLD
    assert num_bytes == len(sine(len(TEXT) * SAMPLES_PER_CHAR))
    types = [event["type"] for event in events]
    assert types[0] == "speech.audio.timestamps"
    assert types.count("speech.audio.timestamps") == 2


def test_words_are_told_only_to_who_asks() -> None:
    answer = ask(timestamp_granularities=None, stream_format="sse", response_format="pcm")

    assert b"timestamps" not in answer.body


@pytest.mark.parametrize("value", [[], ["segment"], ["word", "segment"], "word", [5], {}])
def test_other_granularities_are_refused(value: object) -> None:
    answer = ask(timestamp_granularities=value)

    assert answer.status == 400
    assert answer.error["param"] == "timestamp_granularities"
    assert "'word'" in answer.error["message"]


def test_a_file_has_no_room_for_words() -> None:
    answer = ask(stream_format="audio")

    assert answer.status == 400
    assert answer.error["param"] == "timestamp_granularities"
    assert "sse" in answer.error["message"]
