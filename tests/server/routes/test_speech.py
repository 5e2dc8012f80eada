"""The speech route's description; what it does is in ``test_speech_stream``."""

from __future__ import annotations

from typing import Any

import pytest

from server.app import create_app
from server.schemas.speech import SpeechRequest
from tests.server.asgi_client import request
from tests.server.fake_engine import FakeEngine


@pytest.fixture(scope="module")
def document() -> Any:
    return request(create_app(FakeEngine()), "GET", "/openapi.json").json()


def test_every_reference_leads_somewhere(document: Any) -> None:
    schemas = document["components"]["schemas"]

    def references(node: Any) -> list[str]:
        if isinstance(node, list):
            return [ref for item in node for ref in references(item)]
        if not isinstance(node, dict):
            return []
        own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
        return own + [ref for value in node.values() for ref in references(value)]

    found = references(document)
    assert "#/components/schemas/SpeechRequest" in found
    assert all(ref.removeprefix("#/components/schemas/") in schemas for ref in found)


def test_the_request_body_is_described_field_by_field(document: Any) -> None:
    operation = document["paths"]["/v1/audio/speech"]["post"]
    schema = document["components"]["schemas"]["SpeechRequest"]

    assert operation["requestBody"]["required"] is True
    assert schema["required"] == ["input"]
    assert set(schema["properties"]) == set(SpeechRequest.model_fields)
    assert all(prop.get("description") for prop in schema["properties"].values())


def test_the_answer_is_binary_or_events_and_errors_are_the_envelope(document: Any) -> None:
    responses = document["paths"]["/v1/audio/speech"]["post"]["responses"]

    assert set(responses["200"]["content"]) == {
        "audio/mpeg",
        "audio/ogg",
        "audio/aac",
        "audio/flac",
        "audio/wav",
        "audio/pcm",
        "text/event-stream",
        "application/json",
    }
    with_words = responses["200"]["content"]["application/json"]["schema"]["$ref"]
    assert with_words == "#/components/schemas/SpeechWithWords"
    assert "SpeechWithWords" in document["components"]["schemas"]
    assert responses["200"]["content"]["audio/wav"]["schema"]["format"] == "binary"
    assert set(responses) == {"200", "400", "401", "404", "413", "415", "429", "500", "503", "504"}
    for status in set(responses) - {"200"}:
        content = responses[status]["content"]["application/json"]
        assert content["schema"]["$ref"] == "#/components/schemas/ErrorBody"


def test_the_document_can_be_asked_for_again(document: Any) -> None:
    app = create_app(FakeEngine())

    assert app.openapi() == app.openapi()
