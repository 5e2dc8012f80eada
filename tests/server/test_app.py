"""The application as a whole, with an engine in the same process."""

from __future__ import annotations

from server.app import create_app
from tests.server.asgi_client import post_json, request
from tests.server.fake_engine import SAMPLES_PER_CHAR, FakeEngine, sine


def test_a_text_becomes_its_samples() -> None:
    answer = post_json(
        create_app(FakeEngine()), "/v1/audio/speech", {"input": "Hello", "response_format": "pcm"}
    )

    assert answer.status == 200
    assert answer.is_whole
    assert answer.body == sine(5 * SAMPLES_PER_CHAR)


def test_creating_the_app_starts_nothing() -> None:
    engine = FakeEngine()
    create_app(engine)

    assert not engine.is_ready
    assert request(create_app(engine), "GET", "/ready").status == 503
