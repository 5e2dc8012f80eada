"""Whatever is posted, the answer is speech or an error of the client's, and nothing is left."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from hypothesis import given, settings
from hypothesis import strategies as st

from server.app import create_app
from server.schemas.speech import SpeechRequest
from tests.server.asgi_client import Answer, request
from tests.server.fake_engine import FakeEngine

SPEECH = "/v1/audio/speech"
ENGINE = FakeEngine()
APP = create_app(ENGINE)

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)
likely = st.sampled_from(["Hello.", "mp3", "pcm", "wav", "anna", "sse", "audio", 1, 2.0, 24000])
requests = st.dictionaries(
    st.sampled_from([*SpeechRequest.model_fields, "unknown"]), likely | values, max_size=6
)


def post(body: bytes) -> Answer:
    return request(APP, "POST", SPEECH, body=body, headers={"content-type": "application/json"})


def check(answer: Answer) -> None:
    assert answer.is_whole
    assert answer.body
    if answer.status == 200:
        assert answer.headers["content-type"].startswith(("audio/", "text/event-stream"))
    else:
        assert answer.status in (400, 404)
        assert answer.error["message"]
    assert ENGINE.num_open == ENGINE.admission.num_taken == 0


@settings(deadline=None, max_examples=200)
@given(requests)
def test_any_object(data: dict[str, Any]) -> None:
    check(post(json.dumps(data).encode()))


@settings(deadline=None, max_examples=100)
@given(requests.filter(lambda data: "input" not in data))
def test_any_object_with_a_text(data: dict[str, Any]) -> None:
    check(post(json.dumps(data | {"input": "Hello."}).encode()))


@settings(deadline=None, max_examples=100)
@given(st.binary(max_size=100))
def test_any_bytes(body: bytes) -> None:
    answer = post(body)

    check(answer)
    assert answer.status == 400


@settings(deadline=None, max_examples=100)
@given(st.text(min_size=1, max_size=30))
def test_any_text(text: str) -> None:
    check(post(json.dumps({"input": text, "response_format": "pcm"}).encode()))


@settings(deadline=None, max_examples=100)
@given(st.sampled_from(["GET", "POST", "HEAD"]), st.text(max_size=30))
def test_any_path(method: str, path: str) -> None:
    answer = request(APP, method, "/" + quote(path, errors="replace"))

    assert answer.status in (200, 404, 405)
