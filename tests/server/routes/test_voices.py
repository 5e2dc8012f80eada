"""The voice listing."""

from __future__ import annotations

from server.app import create_app
from tests.server.asgi_client import request
from tests.server.fake_engine import FakeEngine


def test_each_voice_is_described_and_the_default_is_first() -> None:
    voices = request(create_app(FakeEngine()), "GET", "/audio/voices").json()["voices"]

    assert [voice["id"] for voice in voices] == ["anna", "ben"]
    assert voices[1] == {
        "id": "ben",
        "name": "Ben",
        "language": "en",
        "gender": "male",
        "description": "deep",
        "aliases": ["onyx"],
    }
