"""Every bad request gets the right 4xx, an envelope that names the field, and harms nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from fastapi import FastAPI

from server.app import create_app
from server.settings import ServerSettings
from tests.server.asgi_client import Answer, post_json, request
from tests.server.fake_engine import FakeEngine

SPEECH = "/v1/audio/speech"
KEY = "k-right"
JSON = {"content-type": "application/json"}
FORMATS = "mp3, opus, aac, flac, wav, pcm"
VOICES = "anna, ben"
MODELS = "sine, org/sine, tts-1, tts-1-hd, gpt-4o-mini-tts"


class Field(NamedTuple):
    """A speech request with one wrong field, and what the message must say."""

    name: str
    data: dict[str, Any]
    param: str
    says: str
    status: int = 400
    code: str = "invalid_value"


def wrong(name: str, key: str, value: object, says: str, **rest: Any) -> Field:
    return Field(name, {"input": "Hello", key: value}, key, says, **rest)


FIELDS = [
    Field("no input", {}, "input", "missing", code="missing_required_parameter"),
    wrong("empty input", "input", "", "at least one character"),
    wrong("blank input", "input", " \n\t ", "white space"),
    wrong("no-break spaces", "input", "   ", "white space"),
    wrong("punctuation only", "input", "?!...", "nothing that can be spoken"),
    wrong("NUL", "input", "\x00", "NUL"),
    wrong("NUL inside", "input", "Hello\x00there", "NUL"),
    wrong("NUL after a line end", "input", "Hello\n\x00", "NUL"),
    wrong("lone high surrogate", "input", "Hi \ud83d", "lone surrogate"),
    wrong("lone low surrogate", "input", "\udc00", "lone surrogate"),
    wrong("input null", "input", None, "a string"),
    wrong("input number", "input", 5, "a string"),
    wrong("input true", "input", True, "a string"),
    wrong("input list", "input", ["Hello"], "a string"),
    wrong("input object", "input", {"text": "Hello"}, "a string"),
    wrong("unknown model", "model", "gpt-9", MODELS, status=404, code="model_not_found"),
    wrong("empty model", "model", "", MODELS, status=404, code="model_not_found"),
    wrong("odd date", "model", "gpt-4o-mini-tts-2025", MODELS, status=404, code="model_not_found"),
    wrong("model number", "model", 1, "a model name"),
    wrong("model surrogate", "model", "\ud800", "lone surrogate"),
    wrong("unknown voice", "voice", "nobody", VOICES),
    wrong("empty voice", "voice", "", VOICES),
    wrong("long voice", "voice", "v" * 5000, VOICES),
    wrong("path as voice", "voice", "../../etc/passwd", VOICES),
    wrong("voice number", "voice", 7, "a voice id"),
    wrong("voice list", "voice", ["anna"], "a voice id"),
    wrong("voice object without id", "voice", {"name": "anna"}, "a voice id"),
    wrong("voice object, id number", "voice", {"id": 5}, "a voice id"),
    wrong("voice object, unknown", "voice", {"id": "nobody"}, VOICES),
    wrong("unknown format", "response_format", "ogg", FORMATS),
    wrong("format in capitals", "response_format", "MP3", FORMATS),
    wrong("empty format", "response_format", "", FORMATS),
    wrong("format number", "response_format", 3, FORMATS),
    wrong("format list", "response_format", ["mp3"], FORMATS),
    wrong("speed 0", "speed", 0, "0.25 to 4"),
    wrong("speed negative", "speed", -1, "0.25 to 4"),
    wrong("speed low", "speed", 0.2499, "0.25 to 4"),
    wrong("speed high", "speed", 4.001, "0.25 to 4"),
    wrong("speed huge", "speed", 10**400, "0.25 to 4"),
    wrong("speed word", "speed", "fast", "0.25 to 4"),
    wrong("speed string", "speed", "1.0", "0.25 to 4"),
    wrong("speed true", "speed", True, "0.25 to 4"),
    wrong("speed object", "speed", {}, "0.25 to 4"),
    wrong("unknown stream format", "stream_format", "websocket", "audio, sse"),
    wrong("stream format number", "stream_format", 1, "audio, sse"),
    wrong("stream word", "stream", "yes", "true or false"),
    wrong("stream number", "stream", 1, "true or false"),
    wrong("temperature negative", "temperature", -0.1, "from 0 to 2"),
    wrong("temperature word", "temperature", "warm", "a number"),
    wrong("top_p zero", "top_p", 0, "above 0"),
    wrong("top_k negative", "top_k", -1, "from 0 to"),
    wrong("guidance_scale below one", "guidance_scale", 0.5, "from 1 to 100"),
    wrong("guidance_scale true", "guidance_scale", True, "a number"),
    wrong("seed negative", "seed", -1, "from 0 to"),
    wrong("seed huge", "seed", 2**63, "from 0 to"),
    wrong("seed vast", "seed", 10**1000, "from 0 to"),
    wrong("seed fraction", "seed", 1.5, "an integer"),
    wrong("seed word", "seed", "lucky", "an integer"),
    wrong("seed true", "seed", True, "an integer"),
    wrong("rate 0", "sample_rate", 0, "8000 to 48000"),
    wrong("rate low", "sample_rate", 7999, "8000 to 48000"),
    wrong("rate high", "sample_rate", 48001, "8000 to 48000"),
    wrong("rate fraction", "sample_rate", 24000.5, "8000 to 48000"),
    wrong("rate word", "sample_rate", "24k", "8000 to 48000"),
    Field(
        "rate that mp3 has not",
        {"input": "Hello", "sample_rate": 9000},
        "sample_rate",
        "allowed: 8000, 11025",
    ),
    Field(
        "rate that opus has not",
        {"input": "Hello", "sample_rate": 44100, "response_format": "opus"},
        "sample_rate",
        "allowed: 8000, 12000",
    ),
    wrong("language number", "language", 1, "a language tag"),
    wrong("language long", "language", "e" * 36, "a language tag"),
    wrong("instructions number", "instructions", 1, "4096"),
    wrong("instructions long", "instructions", "x" * 4097, "4096"),
]

BODIES = [
    ("no body", b"", "not valid JSON"),
    ("blank body", b"  ", "not valid JSON"),
    ("not JSON", b"input=Hello", "line 1 column 1"),
    ("cut short", b'{"input": "Hel', "line 1 column 11"),
    ("trailing comma", b'{"input": "Hello",}', "line 1 column"),
    ("single quotes", b"{'input': 'Hello'}", "line 1 column 2"),
    ("second line", b'{\n"input" "Hello"}', "line 2 column 9"),
    ("two documents", b'{"input": "a"} {"input": "b"}', "column 16"),
    ("raw control character", b'{"input": "a\nb"}', "column"),
    ("NaN", b'{"input": "Hello", "speed": NaN}', "NaN"),
    ("Infinity", b'{"input": "Hello", "speed": -Infinity}', "-Infinity"),
    ("not UTF-8", b'{"input": "\xff"}', "byte 11"),
    ("UTF-16", '{"input": "Hello"}'.encode("utf-16"), "not UTF-8"),
    ("overlong UTF-8", b'{"input": "\xc0\x80"}', "not UTF-8"),
    ("nested", b"[" * 100_000, "nested too deeply"),
    ("nested objects", b'{"a":' * 100_000, "nested too deeply"),
    ("endless number", b'{"input": "Hello", "seed": ' + b"1" * 5000 + b"}", "too long"),
    ("a list", b'[{"input": "Hello"}]', "JSON object, got list"),
    ("a string", b'"Hello"', "JSON object, got str"),
    ("null", b"null", "JSON object, got NoneType"),
]

PATHS = [
    ("GET", SPEECH, 405, "method_not_allowed", "POST"),
    ("HEAD", SPEECH, 405, "method_not_allowed", "POST"),
    ("OPTIONS", SPEECH, 405, "method_not_allowed", "POST"),
    ("PUT", SPEECH, 405, "method_not_allowed", "POST"),
    ("DELETE", SPEECH, 405, "method_not_allowed", "POST"),
    ("BREW", SPEECH, 405, "method_not_allowed", "POST"),
    ("POST", "/v1/models", 405, "method_not_allowed", "GET"),
    ("DELETE", "/v1/models/sine", 405, "method_not_allowed", "GET"),
    ("POST", "/v1/audio/voices", 405, "method_not_allowed", "GET"),
    ("POST", "/health", 405, "method_not_allowed", "GET"),
    ("POST", "/v1/../v1/audio/speech", 404, "unknown_url", "no such path"),
    ("POST", "//v1//audio//speech", 404, "unknown_url", "no such path"),
    ("POST", "/v1/audio/speech//", 404, "unknown_url", "no such path"),
    ("POST", "/v1/audio/speech/../../admin", 404, "unknown_url", "no such path"),
    ("POST", "/v1/audio/%73peech/%2e%2e", 404, "unknown_url", "no such path"),
    ("POST", "/v1/v1/audio/speech", 404, "unknown_url", "no such path"),
    ("POST", "/V1/AUDIO/SPEECH", 404, "unknown_url", "no such path"),
    ("GET", "/v1/audio/speech%00", 404, "unknown_url", "no such path"),
    ("GET", "/" + "a" * 8000, 404, "unknown_url", "no such path"),
    ("GET", "/etc/passwd", 404, "unknown_url", "no such path"),
    ("GET", "/v1/models/..%2f..%2fetc%2fpasswd", 404, "model_not_found", MODELS),
    ("GET", "/v1/models/%ff", 404, "model_not_found", MODELS),
]

MEDIA_TYPES = [
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "application/octet-stream",
    "application/jsonp",
    "json",
]


@pytest.fixture(scope="module")
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture(scope="module")
def app(engine: FakeEngine) -> FastAPI:
    return create_app(engine)


@pytest.fixture(autouse=True)
def _unharmed(old_objects_aside: None, engine: FakeEngine, app: FastAPI) -> Iterator[None]:
    """After each bad request no ticket is out and a good request still works, in time."""
    # Of this process: what others do on the machine is not the server's fault.
    used_before_s = time.process_time()
    yield
    assert time.process_time() - used_before_s < 2.0
    assert engine.admission.num_taken == engine.num_open == 0
    assert post_json(app, SPEECH, {"input": "Hi", "response_format": "pcm"}).status == 200


def check(answer: Answer, status: int, code: str, says: str, param: str | None) -> None:
    assert answer.status == status
    assert answer.headers["content-type"] == "application/json"
    error = answer.error
    assert error["type"] == "invalid_request_error"
    assert error["code"] == code
    assert error["param"] == param
    assert says in error["message"]
    assert len(answer.body) < 1000


@pytest.mark.parametrize("case", FIELDS, ids=lambda case: case.name)
def test_a_wrong_field_is_named_with_what_it_may_be(app: FastAPI, case: Field) -> None:
    answer = post_json(app, SPEECH, case.data)

    check(answer, case.status, case.code, case.says, case.param)
    if (
        case.code in ("invalid_value", "missing_required_parameter")
        and "surrogate" not in case.name
    ):
        assert case.param in answer.error["message"]


@pytest.mark.parametrize(("body", "says"), [b[1:] for b in BODIES], ids=[b[0] for b in BODIES])
def test_a_body_that_is_no_json_object_is_a_400(app: FastAPI, body: bytes, says: str) -> None:
    answer = request(app, "POST", SPEECH, body=body, headers=JSON)

    check(answer, 400, "invalid_value", says, None)


@pytest.mark.parametrize(("method", "path", "status", "code", "says"), PATHS)
def test_a_wrong_path_or_method_has_the_envelope_too(
    app: FastAPI, method: str, path: str, status: int, code: str, says: str
) -> None:
    answer = request(app, method, path)

    check(answer, status, code, says, "model" if code == "model_not_found" else None)
    if status == 405:
        assert says in answer.headers["allow"]


@pytest.mark.parametrize("media_type", MEDIA_TYPES)
def test_a_body_of_another_media_type_is_a_415(app: FastAPI, media_type: str) -> None:
    body = json.dumps({"input": "Hello"}).encode()

    answer = request(app, "POST", SPEECH, body=body, headers={"content-type": media_type})

    check(answer, 415, "unsupported_media_type", "application/json", "content-type")


@pytest.mark.parametrize("declared", [True, False])
def test_a_megabyte_of_digits_is_a_413(app: FastAPI, declared: bool) -> None:
    body = json.dumps({"input": "7" * 1_000_000}).encode()
    headers = JSON | ({"content-length": str(len(body))} if declared else {})

    answer = request(app, "POST", SPEECH, body=body, headers=headers)

    check(answer, 413, "payload_too_large", "1000000 bytes", None)


@pytest.mark.parametrize(
    ("authorization", "code"),
    [
        (None, "missing_api_key"),
        ("", "missing_api_key"),
        ("Bearer", "missing_api_key"),
        ("Bearer ", "missing_api_key"),
        ("Basic a-right", "missing_api_key"),
        (KEY, "missing_api_key"),
        ("Bearer k-wrong", "invalid_api_key"),
        ("Bearer k-righ", "invalid_api_key"),
        ("Bearer k-right2", "invalid_api_key"),
        ("Bearer K-RIGHT", "invalid_api_key"),
        ("Bearer \xff\xfe", "invalid_api_key"),
    ],
)
def test_without_the_right_key_the_answer_is_401(authorization: str | None, code: str) -> None:
    locked = create_app(FakeEngine(), ServerSettings(api_keys=(KEY,)))
    headers = {} if authorization is None else {"authorization": authorization}

    answer = post_json(locked, SPEECH, {"input": "Hello"}, headers=headers)

    check(answer, 401, code, "API key", None)
    assert answer.headers["www-authenticate"] == "Bearer"


def test_a_text_over_the_configured_limit_is_a_400() -> None:
    short = create_app(FakeEngine(), ServerSettings(max_input_chars=5))

    answer = post_json(short, SPEECH, {"input": "Hello!"})

    check(answer, 400, "string_above_max_length", "at most 5", "input")
    assert post_json(short, SPEECH, {"input": "Hello"}).status == 200


def test_of_a_repeated_key_the_last_one_counts(app: FastAPI) -> None:
    answer = request(app, "POST", SPEECH, body=b'{"input": "Hello", "input": 5}', headers=JSON)

    check(answer, 400, "invalid_value", "input must be", "input")


def test_the_table_has_at_least_sixty_cases() -> None:
    assert len(FIELDS) + len(BODIES) + len(PATHS) + len(MEDIA_TYPES) >= 60
