"""``/v1/audio/transcriptions`` and ``/translations``: shapes, fields, refusals."""

from __future__ import annotations

import asyncio
import io
import json
import re
import tracemalloc
import wave
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import soundfile
from fastapi import FastAPI
from openai.types.audio import (
    Transcription,
    TranscriptionTextDeltaEvent,
    TranscriptionTextDoneEvent,
    TranscriptionVerbose,
)

from engine.errors import StageFailedError
from server.app import create_app
from server.settings import ServerSettings
from server.transcriber import WINDOW_SAMPLES
from tests.server.asgi_client import Answer, Exchange, exchange, request
from tests.server.fake_engine import FakeEngine
from tests.server.fake_transcriber import FakeTranscriber, Hearing, multipart, segment
from tests.server.slow_upload import Upload
from worker.models.whisper.adapter import transform_prompt

RATE = 16_000
TIMES = "timestamp_granularities"
PATH, TRANSLATIONS = "/v1/audio/transcriptions", "/v1/audio/translations"
TEXT = "Hello there. How are you?"
Fields = list[tuple[str, str]]


def hearing() -> Hearing:
    return Hearing([[segment("Hello there.", 0.2, 1.0), segment("How are you?", 1.5, 2.25)]])


def wav(seconds: float = 3.0) -> bytes:
    """A tone, 16 kHz mono."""
    samples = (8000 * np.sin(np.arange(round(seconds * RATE)) / 5)).astype("<i2")
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setparams((1, 2, RATE, 0, "NONE", ""))
        file.writeframes(samples.tobytes())
    return buffer.getvalue()


@pytest.fixture
def engine() -> FakeTranscriber:
    return FakeTranscriber(hearing())


@pytest.fixture
def app(engine: FakeTranscriber) -> FastAPI:
    engine.start()
    return create_app(FakeEngine(), transcriber=engine.served())


def ask(
    app: FastAPI, *fields: tuple[str, str], path: str = PATH, file: bytes | None = None
) -> Answer:
    return request(app, "POST", path, **multipart(list(fields), wav() if file is None else file))


def prompt_of(engine: FakeTranscriber) -> dict[str, Any]:
    prompt: dict[str, Any] = engine.calls[-1]["prompt"]
    return prompt


def events(answer: Answer) -> list[dict[str, Any]]:
    assert answer.headers["content-type"] == "text/event-stream"
    lines = [line for line in answer.body.decode().split("\n\n") if line]
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def test_json_is_openais(app: FastAPI, engine: FakeTranscriber) -> None:
    answer = ask(app, ("model", "gpt-4o-transcribe"))

    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    parsed = Transcription.model_validate(answer.json(), strict=True)
    assert parsed.text == TEXT
    assert parsed.logprobs is None
    assert answer.json()["usage"] == {
        "type": "tokens",
        "input_tokens": 30,
        "input_token_details": {"text_tokens": 0, "audio_tokens": 30},
        "output_tokens": 6,
        "total_tokens": 36,
    }
    assert engine.admission.num_taken == 0
    assert engine.jobs == {}


def test_whisper_counts_seconds(app: FastAPI) -> None:
    for model in ((), (("model", "whisper-1"),), (("model", "tiny"),)):
        assert ask(app, *model).json()["usage"] == {"type": "duration", "seconds": 3}


def test_text_is_the_text_and_a_line_end(app: FastAPI) -> None:
    answer = ask(app, ("response_format", "text"))

    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.body.decode() == f"{TEXT}\n"


def test_subtitles_have_numbers_and_times(app: FastAPI) -> None:
    assert ask(app, ("response_format", "srt")).body.decode() == (
        "1\n00:00:00,200 --> 00:00:01,000\nHello there.\n\n"
        "2\n00:00:01,500 --> 00:00:02,250\nHow are you?\n"
    )
    vtt = ask(app, ("response_format", "vtt"))
    assert vtt.headers["content-type"] == "text/vtt; charset=utf-8"
    assert vtt.body.decode() == (
        "WEBVTT\n\n00:00:00.200 --> 00:00:01.000\nHello there.\n\n"
        "00:00:01.500 --> 00:00:02.250\nHow are you?\n"
    )


def test_verbose_json_has_segments(app: FastAPI) -> None:
    answer = ask(app, ("response_format", "verbose_json")).json()

    parsed = TranscriptionVerbose.model_validate(answer)
    assert (answer["task"], parsed.language, parsed.duration) == ("transcribe", "english", 3.0)
    assert parsed.segments is not None
    assert [s.id for s in parsed.segments] == [0, 1]
    assert [s.seek for s in parsed.segments] == [20, 150]
    assert parsed.segments[1].start == 1.5
    assert parsed.words is None


@pytest.mark.parametrize(
    ("fields", "has_segments", "has_words"),
    [
        ([(f"{TIMES}[]", "word")], False, True),
        ([(TIMES, "word")], False, True),
        (
            [("timestamp_granularities[]", "word"), ("timestamp_granularities[]", "segment")],
            True,
            True,
        ),
        ([(TIMES, '["word", "segment"]')], True, True),
        ([(f"{TIMES}[]", "segment")], True, False),
    ],
)
def test_times_are_given_in_the_granularities_asked_for(
    app: FastAPI, fields: Fields, has_segments: bool, has_words: bool
) -> None:
    answer = ask(app, ("response_format", "verbose_json"), *fields).json()

    assert ("segments" in answer, "words" in answer) == (has_segments, has_words)
    if has_words:
        assert answer["words"][0] == {"word": "Hello", "start": 0.2, "end": 0.6}
        TranscriptionVerbose.model_validate(answer)


def test_a_stream_tells_the_text_piece_by_piece(app: FastAPI) -> None:
    told = events(ask(app, ("stream", "true"), ("model", "whisper-1")))

    deltas = [TranscriptionTextDeltaEvent.model_validate(event) for event in told[:-1]]
    done = TranscriptionTextDoneEvent.model_validate(told[-1])
    assert [d.delta for d in deltas] == ["Hello there.", " How are you?"]
    assert done.text == TEXT
    assert done.usage is not None
    assert done.usage.type == "tokens"


def test_a_stream_tells_segments_if_they_are_asked_for(app: FastAPI) -> None:
    told = events(ask(app, ("stream", "True"), ("timestamp_granularities[]", "segment")))

    assert [event["type"].rpartition(".")[2] for event in told] == [
        "delta",
        "segment",
        "delta",
        "segment",
        "done",
    ]
    assert [event["id"] for event in told[1::2]] == ["seg_0", "seg_1"]
    assert told[1] == {
        "type": "transcript.text.segment",
        "id": "seg_0",
        "start": 0.2,
        "end": 1.0,
        "speaker": "",
        "text": "Hello there.",
    }


@pytest.mark.parametrize("name", ["include", "include[]"])
def test_probabilities_are_given_word_by_word(
    app: FastAPI, engine: FakeTranscriber, name: str
) -> None:
    answer = ask(app, (name, "logprobs")).json()

    parsed = Transcription.model_validate(answer, strict=True)
    assert parsed.logprobs is not None
    assert "".join(entry.token or "" for entry in parsed.logprobs).strip() == TEXT
    assert parsed.logprobs[0].logprob == pytest.approx(np.log(0.5))
    assert prompt_of(engine)["word_times"]
    told = events(ask(app, (name, "logprobs"), ("stream", "true")))
    assert told[0]["logprobs"] == answer["logprobs"][:2]


def test_every_field_reaches_the_engine(app: FastAPI, engine: FakeTranscriber) -> None:
    ask(
        app,
        ("language", "en"),
        ("languages[]", "en"),
        ("languages[]", "de"),
        ("keywords[]", "Voxloom"),
        ("prompt", "A talk."),
        ("temperature", "0.4"),
        ("chunking_strategy[type]", "server_vad"),
        ("chunking_strategy[threshold]", "0.7"),
        ("some_field_of_tomorrow", "1"),
    )

    assert prompt_of(engine) == {
        "mode": "recording",
        "task": "transcribe",
        "language": "en",
        "languages": ["en", "de"],
        "keywords": ["Voxloom"],
        "context": "A talk.",
        "temperature": 0.4,
        "word_times": False,
        "detection": {"threshold": 0.7, "prefix_padding_ms": 300, "silence_duration_ms": 200},
    }


@pytest.mark.parametrize(
    ("value", "threshold"),
    [
        ("auto", None),
        ("", None),
        ('{"type": "server_vad"}', 0.5),
        ('{"type": "server_vad", "threshold": 0.25}', 0.25),
    ],
)
def test_a_chunking_strategy_may_be_a_word_or_json(
    app: FastAPI, engine: FakeTranscriber, value: str, threshold: float | None
) -> None:
    assert ask(app, ("chunking_strategy", value)).status == 200

    detection = prompt_of(engine)["detection"]
    assert (detection and detection["threshold"]) == threshold


def test_a_translation_asks_for_english(app: FastAPI, engine: FakeTranscriber) -> None:
    answer = ask(app, ("model", "whisper-1"), path=TRANSLATIONS)
    verbose = ask(app, ("response_format", "verbose_json"), path=TRANSLATIONS)

    assert answer.json() == {"text": TEXT}
    assert (verbose.json()["task"], verbose.json()["language"]) == ("translate", "english")
    assert len(verbose.json()["segments"]) == 2
    assert prompt_of(engine)["task"] == "translate"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ([("response_format", "mp3")], "response_format"),
        ([("response_format", "diarized_json")], "response_format"),
        ([("temperature", "2")], "temperature"),
        ([("temperature", "warm")], "temperature"),
        ([("stream", "perhaps")], "stream"),
        ([("stream", "true"), ("response_format", "srt")], "response_format"),
        ([("timestamp_granularities[]", "word")], "timestamp_granularities"),
        ([("timestamp_granularities[]", "line"), ("response_format", "verbose_json")],
         "timestamp_granularities"),
        ([("include[]", "tokens")], "include"),
        ([("include[]", "logprobs"), ("response_format", "text")], "include"),
        ([("chunking_strategy", "often")], "chunking_strategy"),
        ([("chunking_strategy", '{"type": "semantic"}')], "chunking_strategy"),
        ([("chunking_strategy", '{"type": "server_vad", "threshold": 3}')], "chunking_strategy"),
        ([("known_speaker_names[]", "Anna")], "known_speaker_names"),
    ],
)  # fmt: skip
def test_a_wrong_field_is_a_400_that_names_it(
    app: FastAPI, engine: FakeTranscriber, fields: Fields, param: str
) -> None:
    answer = ask(app, *fields)

    assert (answer.status, answer.error["param"]) == (400, param)
    assert engine.calls == []


def test_an_unknown_model_is_a_404(app: FastAPI) -> None:
    answer = ask(app, ("model", "whisper-9"))

    assert (answer.status, answer.error["code"]) == (404, "model_not_found")
    assert "whisper-1" in answer.error["message"]


@pytest.mark.parametrize(
    "model",
    [
        "tiny",
        "whisper-1",
        "gpt-4o-transcribe",
        "gpt-4o-mini-transcribe-2025-12-15",
        "gpt-transcribe",
    ],
)
def test_openais_names_are_this_model(app: FastAPI, model: str) -> None:
    assert ask(app, ("model", model)).status == 200
    assert request(app, "GET", f"/v1/models/{model}").json()["id"] == model


def test_the_models_are_listed_behind_those_that_speak(app: FastAPI) -> None:
    ids = [model["id"] for model in request(app, "GET", "/v1/models").json()["data"]]

    assert ids[0] == "sine"
    assert ids[-5:-3] == ["tiny", "whisper-1"]


@pytest.mark.parametrize("file", [b"", b"no audio", wav()[:20], wav()[:44]])
def test_a_file_that_is_no_audio_is_a_400_about_file(
    app: FastAPI, engine: FakeTranscriber, file: bytes
) -> None:
    answer = ask(app, file=file)

    assert (answer.status, answer.error["param"]) == (400, "file")
    assert engine.calls == []
    assert engine.admission.num_taken == 0


def test_a_missing_file_is_a_400_about_file(app: FastAPI) -> None:
    for fields in ([("model", "tiny")], [("file", "text")]):
        answer = request(app, "POST", PATH, **multipart(fields, None))
        assert (answer.status, answer.error["param"]) == (400, "file")


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        ("application/json", 415),
        ("application/x-www-form-urlencoded", 415),
        ("", 415),
        ("multipart/form-data", 400),
        ("multipart/form-data; boundary=another", 400),
    ],
)
def test_a_body_that_is_no_form_is_refused(app: FastAPI, content_type: str, status: int) -> None:
    form = multipart([], wav()) | {"headers": {"content-type": content_type}}

    assert request(app, "POST", PATH, **form).status == status


def test_a_form_of_very_many_or_very_long_fields_is_refused(app: FastAPI) -> None:
    assert ask(app, *[("keywords[]", "a")] * 400).status == 400
    assert ask(app, ("prompt", "a" * 300_000)).status == 400


def test_an_upload_over_its_limit_is_a_413_about_file(engine: FakeTranscriber) -> None:
    settings = ServerSettings(max_body_bytes=1000, max_upload_bytes=50_000)
    app = create_app(FakeEngine(), settings, engine.served())

    assert ask(app, file=wav(1.0)).status == 200
    answer = ask(app, file=wav(3.0))
    assert (answer.status, answer.error["param"]) == (413, "file")


def test_silence_has_no_text(app: FastAPI, engine: FakeTranscriber) -> None:
    engine.hearing.passages = []

    assert ask(app).json()["text"] == ""
    assert ask(app, ("response_format", "srt")).body == b""
    assert ask(app, ("response_format", "verbose_json")).json()["segments"] == []
    assert [e["type"] for e in events(ask(app, ("stream", "true")))] == ["transcript.text.done"]


def test_a_long_recording_is_sent_window_by_window(app: FastAPI, engine: FakeTranscriber) -> None:
    engine.hearing.keeps = 1000
    engine.hearing.passages = [[segment(f"Part {i}.", i * 29.0, i * 29.0 + 1)] for i in range(5)]

    answer = ask(app, ("response_format", "verbose_json"), file=wav(100.0)).json()

    windows = engine.ended[0].windows
    assert answer["text"] == "Part 0. Part 1. Part 2. Part 3."
    assert answer["duration"] == 100.0
    assert [w[0] for w in windows] == [i * (WINDOW_SAMPLES - 1000) for i in range(4)]
    assert [w[2] for w in windows] == [False, False, False, True]
    assert windows[-1][0] + windows[-1][1] == 100 * RATE


def test_three_hours_take_the_memory_of_some_windows(app: FastAPI, engine: FakeTranscriber) -> None:
    hour = np.zeros(3600 * 8000, np.int16)
    file = io.BytesIO()
    with soundfile.SoundFile(file, "w", 8000, 1, "PCM_16", format="FLAC") as recording:
        for _ in range(3):
            recording.write(hour)
    del hour
    tracemalloc.start()
    try:
        form = multipart([("response_format", "verbose_json")], file.getvalue())
        answer = request(app, "POST", PATH, **form, timeout_s=300.0).json()
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert answer["duration"] == 3 * 3600
    assert len(engine.ended[0].windows) == -(-3 * 3600 * RATE // WINDOW_SAMPLES)
    assert peak_bytes < 32 * 1024 * 1024


def test_a_recording_of_exactly_one_window_is_the_last_one(
    app: FastAPI, engine: FakeTranscriber
) -> None:
    assert ask(app, file=wav(WINDOW_SAMPLES / RATE)).status == 200

    assert engine.ended[0].windows == [(0, WINDOW_SAMPLES, True)]


def test_a_failure_before_the_first_text_is_a_status(app: FastAPI, engine: FakeTranscriber) -> None:
    engine.hearing.fail_at_window = 0

    for fields in ([], [("stream", "true")]):
        answer = ask(app, *fields)
        assert answer.status == 500
        assert "secret" not in answer.body.decode()
    assert engine.admission.num_taken == 0


def test_a_failure_behind_the_first_text_ends_the_stream_visibly(
    app: FastAPI, engine: FakeTranscriber
) -> None:
    engine.hearing.fail_at_window = 1
    engine.hearing.error = StageFailedError("the recogniser failed")

    told = events(ask(app, ("stream", "true"), file=wav(40.0)))

    assert told[0]["type"] == "transcript.text.delta"
    assert told[-1]["error"]["code"] == "stage_failed"


@pytest.mark.parametrize("fields", [[], [("stream", "true")]])
def test_a_client_that_leaves_ends_the_recognition(
    app: FastAPI, engine: FakeTranscriber, fields: Fields
) -> None:
    async def leave() -> Answer:
        flights: list[Exchange] = []

        async def before_window(number: int) -> None:
            if number == 1:
                flights[0].leave()
                await asyncio.Event().wait()

        engine.hearing.before_window = before_window
        form = multipart(fields, wav(100.0))
        return await exchange(app, "POST", PATH, **form, on_start=flights.append)

    asyncio.run(leave())

    assert engine.num_aborted == 1
    assert engine.jobs == {}
    assert engine.admission.num_taken == 0


def test_beyond_the_tickets_the_answer_is_429() -> None:
    engine = FakeTranscriber(max_running=1)
    app = create_app(FakeEngine(), transcriber=engine.served())
    engine.admit()

    answer = ask(app)

    assert answer.status == 429
    assert "retry-after" in answer.headers


def test_an_upload_holds_its_place_from_its_first_byte_on() -> None:
    async def scenario() -> None:
        engine = FakeTranscriber(hearing(), max_running=1)
        engine.start()
        app = create_app(FakeEngine(), transcriber=engine.served())
        form = multipart([], wav(10.0))
        upload = Upload()
        slow = asyncio.create_task(exchange(app, "POST", PATH, **form, on_start=upload.hold))
        await upload.has_begun.wait()
        for _ in range(3):
            assert (await exchange(app, "POST", PATH, **form)).status == 429
        upload.goes_on.set()
        assert (await slow).status == 200
        assert engine.admission.num_taken == 0

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("timeout_s", "way", "sound_s"), [(0.01, Upload().hold, 10.0), (0.5, Upload.trickle, 0.1)]
)
def test_an_upload_that_stands_still_or_trickles_loses_its_place(
    timeout_s: float, way: Callable[[Exchange], None], sound_s: float
) -> None:
    engine = FakeTranscriber(hearing(), max_running=1)
    engine.start()
    app = create_app(FakeEngine(), ServerSettings(upload_timeout_s=timeout_s), engine.served())

    answer = request(app, "POST", PATH, **multipart([], wav(sound_s)), on_start=way)

    assert (answer.status, answer.error["code"]) == (408, "request_timeout")
    assert engine.admission.num_taken == 0


def test_a_client_that_asks_first_is_refused_before_it_sends() -> None:
    engine = FakeTranscriber(hearing(), max_running=1)
    settings = ServerSettings(max_upload_bytes=50_000)
    app = create_app(FakeEngine(), settings, engine.served())
    form = multipart([], wav(10.0))
    form["headers"] |= {"expect": "100-continue", "content-length": str(len(form["body"]))}
    for status in (413, 429):
        upload = Upload()
        answer = request(app, "POST", PATH, **form, on_start=upload.hold)
        assert (answer.status, upload.num_received) == (status, 0)
        if status == 413:
            engine.admit()


def test_a_lazy_engine_starts_with_the_first_request(engine: FakeTranscriber) -> None:
    app = create_app(FakeEngine(), transcriber=engine.served(is_lazy=True))
    state = request(app, "GET", "/ready").json()
    assert state["pipelines"]["hear"]["starts_on_use"]
    assert engine.num_starts == 0

    assert ask(app).status == 200
    assert ask(app).status == 200

    assert engine.num_starts == 1
    assert not request(app, "GET", "/ready").json()["pipelines"]["hear"]["starts_on_use"]


def test_a_server_without_the_extra_says_how_to_get_it() -> None:
    app = create_app(FakeEngine())

    for path in (PATH, TRANSLATIONS):
        answer = ask(app, path=path)
        assert answer.status == 404
        assert "voxloom[asr]" in answer.error["message"]
    assert "whisper-1" not in request(app, "GET", "/v1/models").body.decode()


def test_the_metrics_of_both_engines_are_one_set(app: FastAPI) -> None:
    ask(app)

    text = request(app, "GET", "/metrics").body.decode()

    assert 'voxloom_fake{pipeline="hear",state="on"} 1.0' in text
    assert "voxloom_transcribed_seconds_total 3.0" in text
    families = re.findall(r"^# TYPE (\S+)", text, re.MULTILINE)
    assert len(families) == len(set(families))


def test_the_form_is_described(app: FastAPI) -> None:
    document = request(app, "GET", "/openapi.json").json()

    body = document["paths"][PATH]["post"]["requestBody"]["content"]["multipart/form-data"]
    assert body["schema"]["allOf"][1]["required"] == ["file"]
    assert (
        "timestamp_granularities"
        in (document["components"]["schemas"]["TranscriptionForm"]["properties"])
    )


@pytest.mark.parametrize(
    ("path", "field", "param", "allowed"),
    [
        (PATH, ("language", "de"), "language", "one of en, got 'de'"),
        (PATH, ("languages[]", "de"), "languages", "one of en, got 'de'"),
        (PATH, ("language", "klingon"), "language", "got 'klingon'"),
        (TRANSLATIONS, ("prompt", "x"), "model", "cannot translate"),
    ],
)
def test_what_the_recogniser_does_not_know_is_refused_before_it_is_asked(
    app: FastAPI,
    engine: FakeTranscriber,
    path: str,
    field: tuple[str, str],
    param: str,
    allowed: str,
) -> None:
    engine.transform = partial(transform_prompt, languages=["en"])
    answer = ask(app, field, path=path)
    assert (answer.status, answer.error["param"]) == (400, param)
    assert allowed in answer.error["message"]
    assert not engine.calls
    assert engine.admission.num_taken == 0
