"""How a speech response begins, flows, breaks off and ends."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import time
import wave
from typing import Any

import pytest
from fastapi import FastAPI

from engine.errors import (
    DeadlineExceededError,
    OverloadedError,
    RequestAbortedError,
    StageFailedError,
    UnavailableError,
)
from server import sse
from server.app import create_app
from server.settings import ServerSettings
from tests.server.asgi_client import Answer, Exchange, exchange, post_json, request
from tests.server.fake_engine import (
    CHUNK_SAMPLES,
    RATE,
    SAMPLES_PER_CHAR,
    FakeEngine,
    Script,
    sine,
)

SPEECH = "/v1/audio/speech"
TEXT = "Hello there, how are you?"
WHOLE = sine(len(TEXT) * SAMPLES_PER_CHAR)
SIZED = {"wav": b"RIFF", "flac": b"fLaC"}
STREAMED = {"mp3": b"\xff", "opus": b"OggS", "aac": b"\xff"}
TYPES = {
    "mp3": "audio/mpeg",
    "opus": "audio/ogg",
    "aac": "audio/aac",
    "flac": "audio/flac",
    "wav": "audio/wav",
    "pcm": "audio/pcm",
}


def speak(engine: FakeEngine, settings: ServerSettings | None = None, **fields: Any) -> Answer:
    data = {"input": TEXT, "response_format": "pcm"} | fields
    return post_json(create_app(engine, settings), SPEECH, data)


def events(answer: Answer) -> list[dict[str, Any]]:
    lines = answer.body.decode().split("\n\n")
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]


def sample(app: FastAPI, name: str) -> float:
    lines = request(app, "GET", "/metrics").body.decode().splitlines()
    return next(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))


def assert_free(engine: FakeEngine) -> None:
    assert engine.num_open == 0
    assert engine.admission.num_taken == 0


@pytest.mark.parametrize("fmt", TYPES)
def test_the_content_type_is_that_of_the_bytes(fmt: str) -> None:
    answer = speak(FakeEngine(), response_format=fmt)

    assert answer.headers["content-type"] == TYPES[fmt]
    assert answer.headers["content-disposition"] == f'inline; filename="speech.{fmt}"'
    assert answer.body.startswith(({"pcm": WHOLE[:2]} | SIZED | STREAMED)[fmt])


def test_mp3_is_the_default() -> None:
    answer = post_json(create_app(FakeEngine()), SPEECH, {"input": TEXT})

    assert answer.headers["content-type"] == "audio/mpeg"


@pytest.mark.parametrize("fmt", ["mp3", "opus", "aac", "pcm"])
def test_without_a_wish_a_format_that_needs_no_length_is_streamed(fmt: str) -> None:
    answer = speak(FakeEngine(), response_format=fmt)

    assert "content-length" not in answer.headers
    assert len(answer.chunks) > 2


@pytest.mark.parametrize("fmt", SIZED)
def test_without_a_wish_a_short_wav_or_flac_says_its_length(fmt: str) -> None:
    answer = speak(FakeEngine(), response_format=fmt)

    assert int(answer.headers["content-length"]) == len(answer.body)


def test_a_short_wav_has_true_sizes() -> None:
    answer = speak(FakeEngine(), response_format="wav")

    with wave.open(io.BytesIO(answer.body)) as file:
        assert file.getparams()[:4] == (1, 2, RATE, len(TEXT) * SAMPLES_PER_CHAR)
        assert file.readframes(file.getnframes()) == WHOLE


def test_a_long_wav_is_streamed_once_the_buffer_is_full() -> None:
    answer = speak(FakeEngine(), ServerSettings(max_buffered_s=0.2), response_format="wav")

    assert "content-length" not in answer.headers
    assert answer.body[4:8] == answer.body[40:44] == b"\xff\xff\xff\xff"
    assert answer.body[44:] == WHOLE


@pytest.mark.parametrize("stream_format", ["audio", "sse"])
def test_a_wav_that_was_asked_for_as_a_stream_is_never_buffered(stream_format: str) -> None:
    answer = speak(FakeEngine(), response_format="wav", stream_format=stream_format)

    assert "content-length" not in answer.headers
    assert len(answer.chunks) > 2


@pytest.mark.parametrize("fmt", TYPES)
def test_stream_false_is_one_complete_file(fmt: str) -> None:
    answer = speak(FakeEngine(), response_format=fmt, stream=False)

    assert int(answer.headers["content-length"]) == len(answer.body)
    assert "transfer-encoding" not in answer.headers


@pytest.mark.parametrize("fmt", ["mp3", "wav"])
def test_stream_false_is_refused_beyond_the_limit(fmt: str) -> None:
    engine = FakeEngine()

    answer = speak(engine, ServerSettings(max_complete_s=0.2), response_format=fmt, stream=False)

    assert answer.status == 400
    assert answer.error["param"] == "stream"
    assert_free(engine)


def test_pcm_at_another_rate_has_the_exact_duration() -> None:
    answer = speak(FakeEngine(), sample_rate=8000)

    assert len(answer.body) == round(len(WHOLE) / 2 * 8000 / RATE) * 2


@pytest.mark.parametrize("fields", [{"stream_format": "sse"}, {"stream": True}])
def test_events_carry_the_audio_and_the_usage(fields: dict[str, Any]) -> None:
    answer = speak(FakeEngine(), **fields)

    assert answer.headers["content-type"] == "text/event-stream"
    *deltas, done = events(answer)
    assert {delta["type"] for delta in deltas} == {"speech.audio.delta"}
    assert b"".join(base64.b64decode(delta["audio"]) for delta in deltas) == WHOLE
    tokens = (-(-len(TEXT) // 4), len(TEXT) * SAMPLES_PER_CHAR * 20 // RATE)
    assert done["type"] == "speech.audio.done"
    assert tuple(done["usage"].values()) == (*tokens, sum(tokens))


def test_the_deltas_of_a_wav_are_one_file() -> None:
    answer = speak(FakeEngine(), stream_format="sse", response_format="wav")

    body = b"".join(base64.b64decode(event["audio"]) for event in events(answer)[:-1])
    assert body[:4] == b"RIFF"
    assert body[44:] == WHOLE


@pytest.mark.parametrize("at_chunk", [0, 3])
def test_idle_events_are_bridged_with_comments(
    monkeypatch: pytest.MonkeyPatch, at_chunk: int
) -> None:
    async def wait_for_ping(number: int) -> None:
        if number == at_chunk:
            await has_pinged.wait()

    def look(flight: Exchange) -> None:
        if flight.answer.chunks[-1] == sse.PING:
            has_pinged.set()

    has_pinged = asyncio.Event()
    monkeypatch.setattr(sse, "IDLE_S", 0.01)
    app = create_app(FakeEngine(Script(before_chunk=wait_for_ping)))
    body = json.dumps({"input": TEXT, "response_format": "pcm", "stream": True}).encode()

    answer = asyncio.run(exchange(app, "POST", SPEECH, body, on_chunk=look))

    *deltas, done = events(answer)
    assert b"".join(base64.b64decode(delta["audio"]) for delta in deltas) == WHOLE
    assert done["type"] == "speech.audio.done"


def test_stream_format_wins_over_stream() -> None:
    answer = speak(FakeEngine(), stream=True, stream_format="audio")

    assert answer.headers["content-type"] == "audio/pcm"


@pytest.mark.parametrize("stream_format", ["audio", "sse"])
def test_warnings_are_a_header_of_printable_ascii(stream_format: str) -> None:
    engine = FakeEngine(Script(warnings=("skipped 'é\n'", "100% of 2")))

    answer = speak(engine, stream_format=stream_format)

    assert answer.headers["x-voxloom-warnings"] == "skipped '%C3%A9%0A'; 100%25 of 2"


def test_warnings_that_come_too_late_for_the_headers_are_told_by_the_last_event() -> None:
    script = Script(warnings=("early",), late_warnings=("early", "late"))

    answer = speak(FakeEngine(script), stream_format="sse")

    assert answer.headers["x-voxloom-warnings"] == "early"
    *deltas, done = events(answer)
    assert done["warnings"] == ["late"]
    assert not any("warnings" in delta for delta in deltas)


@pytest.mark.parametrize("fields", [{"stream": False}, {"timestamp_granularities": ["word"]}])
def test_an_answer_that_is_sent_whole_has_all_warnings_in_its_header(
    fields: dict[str, Any],
) -> None:
    script = Script(warnings=("early",), late_warnings=("late",))

    assert speak(FakeEngine(script), **fields).headers["x-voxloom-warnings"] == "early; late"


def test_without_warnings_there_is_no_such_header() -> None:
    assert "x-voxloom-warnings" not in speak(FakeEngine()).headers


def test_the_engine_gets_what_was_asked_for() -> None:
    engine = FakeEngine()
    headers = {"x-request-id": "abc-1", "traceparent": "00-1-2-01"}
    data = {"input": TEXT, "voice": {"id": "ONYX"}, "speed": 2, "seed": 7, "language": "en"}

    post_json(create_app(engine), SPEECH, data, headers=headers)

    call = engine.calls[0]
    assert call["prompt"] == {
        "text": TEXT,
        "voice": "ben",
        "speed": 2.0,
        "language": "en",
        "instructions": None,
    }
    assert [params.seed for params in call["sampling"]] == [7, 7]
    assert call["sampling"][0].temperature == 0.5
    assert call["request_id"].startswith("abc-1.")
    assert call["trace"] == {"traceparent": "00-1-2-01"}


def test_two_requests_with_one_request_id_do_not_collide() -> None:
    engine = FakeEngine()
    app = create_app(engine)
    for _ in range(2):
        post_json(app, SPEECH, {"input": TEXT}, headers={"x-request-id": "same"})

    assert len({call["request_id"] for call in engine.calls}) == 2


def test_a_request_timeout_becomes_the_engines_deadline() -> None:
    engine = FakeEngine()
    before = time.monotonic()

    speak(engine, ServerSettings(request_timeout_s=50.0))

    assert before + 50 <= engine.calls[0]["deadline"] <= time.monotonic() + 50


@pytest.mark.parametrize(
    ("error", "status", "kind", "code"),
    [
        (RuntimeError("secret detail"), 500, "server_error", "internal_error"),
        (StageFailedError("stage wave failed"), 500, "server_error", "stage_failed"),
        (UnavailableError("no replica"), 503, "server_error", "unavailable"),
        (DeadlineExceededError("too slow"), 504, "server_error", "deadline_exceeded"),
        (RequestAbortedError("gone"), 499, "invalid_request_error", "aborted"),
        (OverloadedError("full", retry_after_s=3.2), 429, "requests", "overloaded"),
    ],
)
@pytest.mark.parametrize("fields", [{}, {"stream": True}, {"stream": False}])
def test_a_failure_before_the_first_byte_is_a_status(
    error: Exception, status: int, kind: str, code: str, fields: dict[str, Any]
) -> None:
    engine = FakeEngine(Script(fail_at_chunk=0, error=error))

    answer = speak(engine, **fields)

    assert answer.status == status
    assert (answer.error["type"], answer.error["code"]) == (kind, code)
    assert "secret" not in answer.error["message"]
    assert_free(engine)


@pytest.mark.parametrize("fmt", ["pcm", "mp3", "opus", "flac"])
def test_a_failure_in_mid_stream_cuts_the_body_short(fmt: str) -> None:
    engine = FakeEngine(Script(fail_at_chunk=4))

    answer = speak(engine, response_format=fmt, stream_format="audio")

    assert answer.status == 200
    assert answer.body
    assert not answer.is_whole
    assert_free(engine)


@pytest.mark.parametrize(
    ("error", "code"),
    [(RuntimeError("secret detail"), "internal_error"), (StageFailedError("x"), "stage_failed")],
)
def test_a_failure_between_events_is_an_error_event(error: Exception, code: str) -> None:
    engine = FakeEngine(Script(fail_at_chunk=2, error=error))

    answer = speak(engine, stream_format="sse")

    last = events(answer)[-1]
    assert last["error"]["code"] == code
    assert "secret" not in str(last)
    assert "speech.audio.done" not in answer.body.decode()
    assert_free(engine)


@pytest.mark.parametrize("fields", [{"stream": False}, {"response_format": "wav"}])
def test_a_late_failure_of_a_file_that_was_not_begun_is_a_status(fields: dict[str, Any]) -> None:
    assert speak(FakeEngine(Script(fail_at_chunk=4)), **fields).status == 500


@pytest.mark.parametrize("fields", [{}, {"stream": True}, {"stream": False}])
@pytest.mark.parametrize("fmt", TYPES)
def test_no_audio_at_all_is_an_error_and_no_empty_file(fmt: str, fields: dict[str, Any]) -> None:
    answer = speak(FakeEngine(Script(no_audio=True)), response_format=fmt, **fields)

    assert answer.status == 500
    assert answer.error["code"] == "stage_failed"


def test_beyond_the_last_ticket_the_answer_is_429() -> None:
    engine = FakeEngine(max_running=1)
    ticket = engine.admit()

    answer = speak(engine)
    ticket.release()

    assert answer.status == 429
    assert int(answer.headers["retry-after"]) >= 1
    assert speak(engine).status == 200


def test_the_listeners_fate_is_measured() -> None:
    app = create_app(FakeEngine())
    post_json(app, SPEECH, {"input": TEXT, "response_format": "pcm"})

    num_samples = len(TEXT) * SAMPLES_PER_CHAR
    assert sample(app, "voxloom_audio_seconds_total") == pytest.approx(num_samples / RATE)
    assert sample(app, "voxloom_ttfa_seconds_count") == 1
    assert sample(app, "voxloom_rtf_count") == 1
    assert (
        sample(app, "voxloom_chunk_interval_seconds_count") == -(-num_samples // CHUNK_SAMPLES) - 1
    )
    assert sample(app, 'voxloom_requests_total{outcome="ok",route="/v1/audio/speech"}') == 1


def test_a_broken_stream_counts_as_broken() -> None:
    app = create_app(FakeEngine(Script(fail_at_chunk=2)))
    post_json(app, SPEECH, {"input": TEXT, "response_format": "pcm"})

    assert sample(app, 'voxloom_requests_total{outcome="broken",route="/v1/audio/speech"}') == 1


def test_two_apps_do_not_share_their_metrics() -> None:
    post_json(create_app(FakeEngine()), SPEECH, {"input": TEXT})

    assert sample(create_app(FakeEngine()), "voxloom_ttfa_seconds_count") == 0
