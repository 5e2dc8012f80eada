"""``/v1/audio/speech/subtitles``, by GET and by POST."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import pytest

from server.app import create_app
from server.settings import ServerSettings
from tests.server.asgi_client import Answer, post_json, request
from tests.server.fake_engine import FakeEngine, Script

PATH = "/v1/audio/speech/subtitles"
TEXT = "Grüße & <b> $3.50!"
# First and last sample at 24 kHz, first and last character.
WORDS = ((0, 2400, 0, 5), (2400, 4800, 6, 7), (4800, 7200, 8, 11), (7200, 8400, 12, 18))
VTT = "WEBVTT\n\n00:00:00.000 --> 00:00:00.360\nGrüße &amp; &lt;b&gt; $3.50!\n"
SRT = "1\n00:00:00,000 --> 00:00:00,360\nGrüße & <b> $3.50!\n"

Ask = Callable[..., Answer]


def app_for(engine: FakeEngine | None = None, **settings: Any) -> Any:
    engine = engine or FakeEngine(Script(words=WORDS, warnings=("skipped a smile",)))
    return create_app(engine, ServerSettings(access_log=False, **settings))


def get(app: Any, **fields: object) -> Answer:
    return request(app, "GET", f"{PATH}?{urlencode(fields)}")


def post(app: Any, **fields: object) -> Answer:
    return post_json(app, PATH, fields)


@pytest.mark.parametrize("ask", [get, post])
@pytest.mark.parametrize(
    ("fields", "kind", "file"),
    [
        ({}, "text/vtt", VTT),
        ({"response_format": "vtt"}, "text/vtt", VTT),
        ({"response_format": "srt"}, "application/x-subrip", SRT),
    ],
)
def test_a_text_gets_its_subtitles(ask: Ask, fields: dict[str, str], kind: str, file: str) -> None:
    answer = ask(app_for(), input=TEXT, **fields)

    assert (answer.status, answer.body.decode()) == (200, file)
    assert answer.headers["content-type"] == f"{kind}; charset=utf-8"
    assert int(answer.headers["content-length"]) == len(answer.body)
    assert answer.headers["x-voxloom-warnings"] == "skipped a smile"


@pytest.mark.parametrize("ask", [get, post])
def test_what_the_speech_sounds_like_can_be_chosen(ask: Ask) -> None:
    engine = FakeEngine(Script(words=WORDS))
    app = app_for(engine)

    assert ask(app, input=TEXT, voice="onyx", speed=1.5, seed=7, model="tts-1").status == 200
    call = engine.calls[0]
    assert (call["prompt"]["voice"], call["prompt"]["speed"]) == ("ben", 1.5)
    assert call["sampling"][0].seed == 7


@pytest.mark.parametrize("ask", [get, post])
@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({}, "input"),
        ({"input": " "}, "input"),
        ({"input": "..."}, "input"),
        ({"input": TEXT, "response_format": "mp3"}, "response_format"),
        ({"input": TEXT, "voice": "nobody"}, "voice"),
        ({"input": TEXT, "speed": "fast"}, "speed"),
        ({"input": TEXT, "speed": 9}, "speed"),
        ({"input": TEXT, "seed": -1}, "seed"),
        ({"input": TEXT, "seed": 1.5}, "seed"),
    ],
)
def test_a_bad_request_is_told_its_field(ask: Ask, fields: dict[str, Any], param: str) -> None:
    answer = ask(app_for(), **fields)

    assert answer.status == 400
    assert answer.error["param"] == param


@pytest.mark.parametrize("speed", ["NaN", "1e999", "[" * 50_000, "9" * 5000])
def test_a_speed_that_json_would_not_take_is_refused(speed: str) -> None:
    answer = get(app_for(), input=TEXT, speed=speed)
    assert (answer.status, answer.error["param"]) == (400, "speed")


def test_an_unknown_model_is_not_found() -> None:
    assert get(app_for(), input=TEXT, model="other").status == 404


def test_a_text_that_is_too_long_for_one_file_is_refused() -> None:
    answer = get(app_for(max_complete_s=0.2), input=TEXT)

    assert answer.status == 400
    assert answer.error["param"] == "input"
    assert "0.2 s" in answer.error["message"]


def test_a_failure_of_the_engine_is_no_short_file() -> None:
    answer = get(app_for(FakeEngine(Script(words=WORDS, fail_at_chunk=2))), input=TEXT)

    assert answer.status == 500
    assert answer.error["type"] == "server_error"


def test_a_full_server_says_so() -> None:
    engine = FakeEngine(max_running=1)
    ticket = engine.admit()

    assert get(app_for(engine), input=TEXT).status == 429
    ticket.release()


def test_a_server_with_keys_wants_one() -> None:
    assert get(app_for(api_keys=("k",)), input=TEXT).status == 401


def test_the_description_has_both() -> None:
    operations = app_for().openapi()["paths"][PATH]

    names = {parameter["name"] for parameter in operations["get"]["parameters"]}
    assert {"input", "voice", "speed", "response_format"} <= names
    assert "requestBody" in operations["post"]
