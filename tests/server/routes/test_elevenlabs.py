"""ElevenLabs' HTTP routes: what they answer, and how they refuse."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from fastapi import FastAPI

from engine.errors import StageFailedError
from server.app import create_app
from server.elevenlabs_formats import FORMATS
from server.elevenlabs_voices import PREMADE
from server.schemas.elevenlabs import ElevenLabsSpeech
from server.settings import ServerSettings
from tests.server.asgi_client import Answer, post_json, request
from tests.server.fake_engine import RATE, SAMPLES_PER_CHAR, FakeEngine, Script, sine

TEXT = "Hello there. You."
SPAN = SAMPLES_PER_CHAR
WORDS = tuple((a * SPAN, b * SPAN, a, b) for a, b in ((0, 5), (6, 12), (13, 17)))
SPEAK = "/v1/text-to-speech/anna"


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine(Script(words=WORDS))


@pytest.fixture
def app(engine: FakeEngine) -> FastAPI:
    return create_app(engine, ServerSettings(access_log=False))


def detail(answer: Answer, status: int) -> dict[str, Any]:
    """What ElevenLabs' clients read of an error; OpenAI's envelope is beside it."""
    assert answer.status == status
    found: dict[str, Any] = answer.json()["detail"]
    assert found["message"] == answer.error["message"]
    assert found["status"] == answer.error["code"]
    return found


@pytest.mark.parametrize("path", ["", "/stream"])
def test_the_body_is_the_audio_in_the_format_that_was_asked(app: FastAPI, path: str) -> None:
    answer = post_json(app, f"{SPEAK}{path}?output_format=pcm_24000", {"text": TEXT})

    assert answer.status == 200
    assert answer.headers["content-type"] == "audio/pcm"
    assert answer.body == sine(len(TEXT) * SPAN)


def test_without_a_format_it_is_mp3(app: FastAPI) -> None:
    answer = post_json(app, SPEAK, {"text": TEXT})

    assert answer.headers["content-type"] == "audio/mpeg"
    assert answer.body[0] == 0xFF


def test_settings_reach_the_engine(app: FastAPI, engine: FakeEngine) -> None:
    settings = {"speed": 1.2, "stability": 0.5, "similarity_boost": True, "style": None}
    body = {
        "text": TEXT,
        "voice_settings": settings,
        "seed": 5,
        "language_code": "en",
        "model_id": "eleven_flash_v2_5",
        "previous_text": "Before.",
    }
    assert post_json(app, "/v1/text-to-speech/onyx", body).status == 200

    (call,) = engine.calls
    assert call["prompt"] == {
        "text": TEXT,
        "voice": "ben",
        "speed": 1.2,
        "language": "en",
        "instructions": None,
    }
    assert call["sampling"][0].seed == 5


def test_a_premade_voice_is_one_of_this_servers(app: FastAPI, engine: FakeEngine) -> None:
    voice_id = next(key for key, alias in PREMADE.items() if alias == "onyx")
    assert post_json(app, f"/v1/text-to-speech/{voice_id}", {"text": TEXT}).status == 200

    assert engine.calls[0]["prompt"]["voice"] == "ben"


def test_an_answer_with_timestamps_has_each_character_of_the_text(app: FastAPI) -> None:
    answer = post_json(app, f"{SPEAK}/with-timestamps?output_format=pcm_24000", {"text": TEXT})

    data = answer.json()
    assert base64.b64decode(data["audio_base64"]) == sine(len(TEXT) * SPAN)
    times = data["alignment"]
    assert data["normalized_alignment"] == times
    assert "".join(times["characters"]) == TEXT
    starts = [round(at * SPAN / RATE, 3) for at in range(len(TEXT))]
    assert times["character_start_times_seconds"] == pytest.approx(starts, abs=0.001)
    assert times["character_end_times_seconds"][-1] == round(len(TEXT) * SPAN / RATE, 3)
    assert answer.headers["content-length"] == str(len(answer.body))


def test_a_stream_with_timestamps_is_a_line_of_json_for_each_piece(app: FastAPI) -> None:
    path = f"{SPEAK}/stream/with-timestamps?output_format=pcm_24000"
    answer = post_json(app, path, {"text": TEXT})

    lines = [json.loads(line) for line in answer.body.decode().splitlines()]
    audio = [base64.b64decode(line["audio_base64"]) for line in lines]
    assert b"".join(audio) == sine(len(TEXT) * SPAN)
    assert len(lines) > 3
    told = [line["alignment"] for line in lines if line["alignment"]]
    assert "".join(char for times in told for char in times["characters"]) == TEXT
    heard_s = 0.0
    for line, data in zip(lines, audio, strict=True):
        heard_s += len(data) / 2 / RATE
        if line["alignment"]:
            assert line["alignment"]["character_start_times_seconds"][0] < heard_s


def test_a_line_is_short_enough_for_clients_that_read_lines(app: FastAPI) -> None:
    path = f"{SPEAK}/stream/with-timestamps?output_format=pcm_48000"
    answer = post_json(app, path, {"text": TEXT * 40})

    assert max(len(line) for line in answer.body.splitlines()) < 64 * 1024


def test_a_failure_in_mid_stream_cuts_the_body_short(engine: FakeEngine, app: FastAPI) -> None:
    engine.script.fail_at_chunk = 2
    engine.script.error = StageFailedError("broke")
    answer = post_json(
        app, f"{SPEAK}/stream/with-timestamps?output_format=pcm_24000", {"text": TEXT}
    )

    assert answer.status == 200
    assert not answer.is_whole


REFUSALS: list[tuple[str, str, dict[str, Any], int, str | None, str]] = [
    ("unknown voice", "nobody", {"text": TEXT}, 404, "voice_id", "known: anna, ben"),
    ("no text", "anna", {}, 400, "text", "missing"),
    ("empty text", "anna", {"text": ""}, 400, "text", "must be"),
    ("blank text", "anna", {"text": "  "}, 400, "text", "white space"),
    ("unspeakable", "anna", {"text": "...!"}, 400, "text", "spoken"),
    ("NUL", "anna", {"text": "a\0"}, 400, "text", "NUL"),
    ("model", "anna", {"text": TEXT, "model_id": "gpt-9"}, 404, "model_id", "known: sine"),
    ("speed", "anna", {"text": TEXT, "voice_settings": {"speed": 9}}, 400, "voice_settings", "4.0"),
    ("settings", "anna", {"text": TEXT, "voice_settings": 3}, 400, "voice_settings", "an object"),
    ("seed", "anna", {"text": TEXT, "seed": -1}, 400, "seed", "from 0"),
    (
        "normalisation",
        "anna",
        {"text": TEXT, "apply_text_normalization": "off"},
        400,
        "apply_text_normalization",
        "auto, on",
    ),
    (
        "dictionaries",
        "anna",
        {"text": TEXT, "pronunciation_dictionary_locators": [{}]},
        400,
        "pronunciation_dictionary_locators",
        "none",
    ),
    ("effects", "anna", {"text": TEXT, "audio_effects": {}}, 400, "audio_effects", "none"),
    ("format", "anna?output_format=mp3_1", {"text": TEXT}, 400, "output_format", "ulaw_8000"),
    ("latency", "anna?optimize_streaming_latency=9", {"text": TEXT}, 400, None, "0 to 4"),
    ("logging", "anna?enable_logging=maybe", {"text": TEXT}, 400, "enable_logging", "true"),
]


@pytest.mark.parametrize("suffix", ["", "/stream/with-timestamps"])
@pytest.mark.parametrize(
    ("voice", "body", "status", "param", "says"),
    [case[1:] for case in REFUSALS],
    ids=[case[0] for case in REFUSALS],
)
def test_what_is_wrong_is_named_in_both_shapes(
    app: FastAPI,
    suffix: str,
    voice: str,
    body: dict[str, Any],
    status: int,
    param: str | None,
    says: str,
) -> None:
    voice_id, _, query = voice.partition("?")
    found = detail(post_json(app, f"/v1/text-to-speech/{voice_id}{suffix}?{query}", body), status)

    assert says in found["message"]
    assert param is None or found["param"] == param


def test_a_text_over_the_limit_is_refused(engine: FakeEngine) -> None:
    app = create_app(engine, ServerSettings(max_input_chars=5))

    assert detail(post_json(app, SPEAK, {"text": TEXT}), 400)["param"] == "text"


def test_a_wrong_method_and_a_missing_key_have_both_shapes_too(engine: FakeEngine) -> None:
    locked = create_app(engine, ServerSettings(api_keys=("k",)))

    assert detail(post_json(locked, SPEAK, {"text": TEXT}), 401)["status"] == "missing_api_key"
    answer = request(locked, "GET", SPEAK, headers={"xi-api-key": "k"})
    assert detail(answer, 405)["status"] == "method_not_allowed"
    assert post_json(locked, SPEAK, {"text": TEXT}, headers={"xi-api-key": "k"}).status == 200
    answer = post_json(locked, SPEAK, {"text": TEXT}, headers={"xi-api-key": "wrong"})
    assert detail(answer, 401)["status"] == "invalid_api_key"


def test_an_overloaded_server_says_when_to_come_back(app: FastAPI, engine: FakeEngine) -> None:
    tickets = [engine.admit() for _ in range(8)]
    answer = post_json(app, SPEAK, {"text": TEXT})

    assert detail(answer, 429)["status"] == "overloaded"
    assert answer.headers["retry-after"]
    for ticket in tickets:
        ticket.release()


def test_voices_are_listed_searched_and_paged(app: FastAPI) -> None:
    def ids(path: str) -> list[str]:
        return [voice["voice_id"] for voice in request(app, "GET", path).json()["voices"]]

    assert ids("/v1/voices") == ["anna", "ben"]
    assert ids("/v2/voices?search=DEEP") == ["ben"]
    assert ids("/v2/voices?gender=female") == ["anna"]
    assert ids("/v2/voices?category=cloned") == []
    assert ids("/v2/voices?voice_ids=ben&voice_ids=cora") == ["ben"]
    assert ids("/v2/voices?sort=name&sort_direction=desc") == ["ben", "anna"]
    first = request(app, "GET", "/v2/voices?page_size=1").json()
    assert (first["has_more"], first["total_count"]) == (True, 2)
    token = first["next_page_token"]
    last = request(app, "GET", f"/v2/voices?page_size=1&next_page_token={token}").json()
    assert [voice["name"] for voice in last["voices"]] == ["Ben"]
    assert (last["has_more"], last["next_page_token"]) == (False, None)


@pytest.mark.parametrize(
    "query", ["page_size=0", "page_size=x", "next_page_token=-1", "sort=size", "sort_direction=up"]
)
def test_a_bad_search_is_refused(app: FastAPI, query: str) -> None:
    found = detail(request(app, "GET", f"/v2/voices?{query}"), 400)

    assert found["param"] == query.partition("=")[0]


def test_one_voice_can_be_asked_for_by_each_of_its_names(app: FastAPI) -> None:
    for name in ("ben", "onyx", "BEN"):
        voice = request(app, "GET", f"/v1/voices/{name}").json()
        assert (voice["voice_id"], voice["category"]) == ("ben", "premade")
        assert voice["labels"] == {"language": "en", "gender": "male"}
    assert detail(request(app, "GET", "/v1/voices/nobody"), 404)["status"] == "voice_not_found"


def test_the_routes_are_described(app: FastAPI) -> None:
    document = request(app, "GET", "/openapi.json").json()
    operation = document["paths"]["/v1/text-to-speech/{voice_id}"]["post"]

    names = [parameter["name"] for parameter in operation["parameters"]]
    assert names == ["voice_id", "output_format", "enable_logging", "optimize_streaming_latency"]
    schema = document["components"]["schemas"]["ElevenLabsSpeech"]
    assert set(schema["properties"]) == set(ElevenLabsSpeech.model_fields)
    assert set(FORMATS) <= set(operation["parameters"][1]["schema"]["anyOf"][0]["enum"])
