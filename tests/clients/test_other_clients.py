"""The requests of clients that are no Python library, byte for byte as they send them."""

from __future__ import annotations

import base64
import io
import json
import wave
from dataclasses import dataclass
from http.client import HTTPMessage
from typing import Any

import pytest

from tests.clients.conftest import KEY
from tests.clients.speech import LONG, TEXT, check_speech, hear
from tests.e2e.server_process import ServerProcess

PACE = (2.0, 4.5)
JSON = {"Content-Type": "application/json"}
EXTENSION = "chrome-extension://hdhinadidafjejdhmfkjgnolgimiaplp"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: HTTPMessage
    body: bytes

    @property
    def media_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0]

    def json(self) -> Any:
        return json.loads(self.body)


def send(
    server: ServerProcess,
    method: str,
    path: str,
    headers: dict[str, str] | None = None,
    body: dict[str, Any] | None = None,
) -> Answer:
    connection = server.connect()
    data = None if body is None else json.dumps(body).encode()
    connection.request(method, path, data, headers or {})
    answer = connection.getresponse()
    return Answer(answer.status, answer.headers, answer.read())


def speak(server: ServerProcess, headers: dict[str, str], **body: Any) -> Answer:
    answer = send(server, "POST", "/v1/audio/speech", JSON | headers, body)
    assert answer.status == 200, answer.body
    return answer


# What each client sends, and in which format it expects the answer. None of them names a format
# that is not named here: those without one store or play MP3.
REQUESTS: dict[str, tuple[dict[str, str], dict[str, Any], str]] = {
    "open webui": (
        {"Authorization": "Bearer ", "X-OpenWebUI-User-Name": "J%C3%B6rg", "Accept": "*/*"},
        {"input": TEXT, "voice": "alloy", "model": "tts-1"},
        "mp3",
    ),
    "open webui with parameters": (
        {"Authorization": "Bearer "},
        {"input": TEXT, "voice": "alloy", "model": "tts-1", "speed": 1, "response_format": "opus"},
        "opus",
    ),
    "sillytavern": (
        {"Authorization": "Bearer "},
        {
            "input": TEXT,
            "response_format": "mp3",
            "voice": "alloy",
            "speed": 1,
            "model": "tts-1",
        },
        "mp3",
    ),
    "home assistant, custom component": (
        {"User-Agent": "HomeAssistant-OpenAI-TTS"},
        {
            "model": "tts-1",
            "input": TEXT,
            "voice": "alloy",
            "response_format": "opus",
            "speed": 1.0,
            "chunk_length": 200,
        },
        "opus",
    ),
    "home assistant, core": (
        {"Accept": "application/octet-stream", "Authorization": "Bearer sk-any"},
        {
            "model": "gpt-4o-mini-tts",
            "voice": "alloy",
            "input": TEXT,
            "instructions": "None",
            "response_format": "flac",
            "speed": 1.0,
        },
        "flac",
    ),
    "pipecat": (
        {"Accept": "application/octet-stream", "Authorization": "Bearer sk-any"},
        {
            "input": TEXT,
            "model": "gpt-4o-mini-tts",
            "voice": "alloy",
            "response_format": "pcm",
        },
        "pcm",
    ),
    "openai agents": (
        {"Accept": "application/octet-stream", "Authorization": "Bearer sk-any"},
        {
            "input": TEXT,
            "model": "gpt-4o-mini-tts",
            "voice": "alloy",
            "response_format": "pcm",
            "instructions": None,
        },
        "pcm",
    ),
    "vercel ai": (
        {"Authorization": "Bearer sk-any", "User-Agent": "ai-sdk/openai/3.0.0"},
        {"model": "tts-1", "input": TEXT, "voice": "alloy", "response_format": "mp3", "speed": 1},
        "mp3",
    ),
    "librechat": (
        {"Authorization": "Bearer sk-any"},
        {"input": TEXT, "model": "tts-1", "voice": "alloy", "backend": "openai"},
        "mp3",
    ),
    "anythingllm": (
        {"Authorization": "Bearer null", "x-stainless-lang": "js"},
        {"model": "tts-1", "voice": "alloy", "input": TEXT},
        "mp3",
    ),
    "n8n": (
        {"Authorization": "Bearer sk-any"},
        {
            "model": "tts-1",
            "input": TEXT,
            "voice": "alloy",
            "response_format": "aac",
            "speed": 1,
        },
        "aac",
    ),
    "read aloud": (
        {"Origin": EXTENSION},
        {
            "model": "tts-1",
            "input": TEXT,
            "voice": "alloy",
            "instructions": "",
            "response_format": "mp3",
        },
        "mp3",
    ),
    "wyoming": (
        {"Authorization": "Bearer sk-any"},
        {"model": "tts-1", "input": TEXT, "voice": "alloy", "response_format": "wav"},
        "wav",
    ),
}
LABELS = {
    "mp3": "audio/mpeg",
    "opus": "audio/ogg",
    "aac": "audio/aac",
    "flac": "audio/flac",
    "wav": "audio/wav",
    "pcm": "audio/pcm",
}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_client_gets_the_format_that_it_expects(server: ServerProcess, name: str) -> None:
    headers, body, fmt = REQUESTS[name]

    answer = speak(server, headers, **body)

    check_speech(answer.body, fmt, *PACE)
    assert answer.media_type == LABELS[fmt]
    assert answer.headers["x-request-id"]
    assert answer.headers["x-voxloom-warnings"] is None


@pytest.mark.parametrize("path", ["/audio/speech", "/v1/audio/speech/", "/audio/speech/"])
def test_a_base_url_may_be_given_in_any_way(server: ServerProcess, path: str) -> None:
    answer = send(server, "POST", path, JSON, {"input": TEXT})

    check_speech(answer.body, "mp3", *PACE)


@pytest.mark.parametrize("path", ["/v1/audio/models", "/audio/models"])
def test_open_webui_finds_models_without_a_key(
    locked_server: ServerProcess, server: ServerProcess, path: str
) -> None:
    for asked in (locked_server, server):
        ids = [model["id"] for model in send(asked, "GET", path).json()["models"]]
        assert "tts-1" in ids


@pytest.mark.parametrize("path", ["/v1/audio/voices", "/audio/voices"])
def test_open_webui_finds_voices_without_a_key(
    locked_server: ServerProcess, server: ServerProcess, path: str
) -> None:
    for asked in (locked_server, server):
        voices = send(asked, "GET", path).json()["voices"]
        assert voices
        assert all(voice["id"] and voice["name"] for voice in voices)


def test_an_empty_key_does_not_open_a_locked_server(locked_server: ServerProcess) -> None:
    headers = JSON | {"Authorization": "Bearer "}
    answer = send(locked_server, "POST", "/v1/audio/speech", headers, {"input": TEXT})

    assert answer.status == 401
    assert answer.json()["error"]["code"] == "missing_api_key"


def test_livekit_tells_events_from_audio_by_the_content_type(server: ServerProcess) -> None:
    answer = speak(
        server,
        {"Accept": "application/octet-stream", "Authorization": "Bearer sk-any"},
        input=TEXT,
        model="gpt-4o-mini-tts",
        voice="ash",
        response_format="mp3",
        speed=1.0,
        stream_format="sse",
    )

    assert answer.media_type == "text/event-stream"
    lines = [line for line in answer.body.decode().split("\n") if line.startswith("data: ")]
    events = [json.loads(line.removeprefix("data: ")) for line in lines]
    audio = b"".join(base64.b64decode(event["audio"]) for event in events[:-1])
    check_speech(audio, "mp3", *PACE)
    assert events[-1]["usage"]["output_tokens"] > 0


def test_livekit_warms_its_connection_up(server: ServerProcess) -> None:
    assert send(server, "GET", "/v1/", {"Authorization": "Bearer sk-any"}).status < 500


def test_pipecat_can_cut_the_samples_anywhere(server: ServerProcess) -> None:
    headers, body, _ = REQUESTS["pipecat"]
    answer = speak(server, headers, **body)

    assert len(answer.body) % 2 == 0
    assert answer.headers["content-length"] is None
    assert answer.headers["transfer-encoding"] == "chunked"


def test_librechat_joins_mp3_bodies_into_one(server: ServerProcess) -> None:
    headers, body, _ = REQUESTS["librechat"]
    texts = ("Here is the first part.", "The second part follows.", "This is the end.")
    parts = [speak(server, headers, **(body | {"input": text})).body for text in texts]

    joined = check_speech(b"".join(parts), "mp3", 2.5, 9.0)

    alone_s = sum(hear(part).duration_s for part in parts)
    assert joined.duration_s == pytest.approx(alone_s, abs=0.001)


def test_anythingllm_sends_a_whole_answer_at_once(server: ServerProcess) -> None:
    headers, body, _ = REQUESTS["anythingllm"]
    text = LONG[:3000]

    answer = speak(server, headers, **(body | {"input": text}))

    assert answer.body[0] == 0xFF
    assert answer.body[1] & 0xE0 == 0xE0
    check_speech(answer.body, "mp3", 100, 300)


def test_wyoming_reads_the_rate_from_a_wav_header(server: ServerProcess) -> None:
    headers, body, _ = REQUESTS["wyoming"]

    with wave.open(io.BytesIO(speak(server, headers, **body).body)) as file:
        assert (file.getframerate(), file.getsampwidth(), file.getnchannels()) == (24000, 2, 1)
        assert 2 * file.getnframes() == len(file.readframes(file.getnframes()))


def test_read_aloud_may_ask_from_an_extension(server: ServerProcess) -> None:
    asked = {
        "Origin": EXTENSION,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type",
    }
    answer = send(server, "OPTIONS", "/v1/audio/speech", asked)

    assert answer.status in (200, 204)
    assert answer.headers["access-control-allow-origin"] in ("*", EXTENSION)
    assert "POST" in answer.headers["access-control-allow-methods"]
    allowed = answer.headers["access-control-allow-headers"].lower().split(",")
    assert {"authorization", "content-type"} <= {name.strip() for name in allowed}


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/v1/models", None, 200),
        ("POST", "/v1/audio/speech", {"input": TEXT, "voice": "nobody"}, 400),
        ("GET", "/v1/nothing", None, 404),
        ("GET", "/v1/audio/speech", None, 405),
    ],
)
def test_a_browser_may_read_every_answer(
    server: ServerProcess, method: str, path: str, body: dict[str, Any] | None, status: int
) -> None:
    answer = send(server, method, path, JSON | {"Origin": EXTENSION}, body)

    assert answer.status == status
    assert answer.headers["access-control-allow-origin"] in ("*", EXTENSION)
    assert "x-request-id" in answer.headers["access-control-expose-headers"]


def test_a_browser_may_read_why_its_key_is_refused(locked_server: ServerProcess) -> None:
    headers = {"Origin": EXTENSION, "Authorization": "Bearer wrong"}
    answer = send(locked_server, "GET", "/v1/models", headers)

    assert answer.status == 401
    assert answer.headers["access-control-allow-origin"] in ("*", EXTENSION)


def test_read_aloud_tests_its_connection_with_the_models(
    server: ServerProcess, locked_server: ServerProcess
) -> None:
    assert "error" not in send(server, "GET", "/v1/models").json()
    assert "error" in send(locked_server, "GET", "/v1/models").json()
    key = {"Authorization": f"Bearer {KEY}"}
    assert "error" not in send(locked_server, "GET", "/v1/models", key).json()


def test_vercel_ai_can_parse_an_error(server: ServerProcess) -> None:
    headers, body, _ = REQUESTS["vercel ai"]
    answer = send(server, "POST", "/v1/audio/speech", JSON | headers, body | {"speed": 9})

    assert answer.status == 400
    error = answer.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert all(isinstance(error[key], str) for key in ("message", "type", "code"))


@pytest.mark.parametrize("path", ["/", "/health", "/ready", "/v1/models", "/v1/health"])
def test_probes_are_answered(server: ServerProcess, path: str) -> None:
    assert send(server, "GET", path).status == 200
