"""Model listings in the shapes that clients read."""

from __future__ import annotations

import pytest

from server.app import create_app
from tests.server.asgi_client import request
from tests.server.fake_engine import FakeEngine

IDS = ["sine", "org/sine", "tts-1", "tts-1-hd", "gpt-4o-mini-tts"]


def test_the_list_is_openais() -> None:
    data = request(create_app(FakeEngine()), "GET", "/v1/models").json()

    assert data["object"] == "list"
    assert [model["id"] for model in data["data"]] == IDS
    assert {key for model in data["data"] for key in model} == {
        "id",
        "object",
        "created",
        "owned_by",
    }


@pytest.mark.parametrize("path", ["org%2Fsine", "org/sine", "sine", "sine/", "gpt-4o-mini-tts"])
def test_a_model_is_found_by_its_id_however_it_is_escaped(path: str) -> None:
    answer = request(create_app(FakeEngine()), "GET", f"/v1/models/{path}")

    assert answer.status == 200
    assert answer.json()["object"] == "model"


def test_the_audio_list_is_open_webuis() -> None:
    data = request(create_app(FakeEngine()), "GET", "/v1/audio/models").json()

    assert data == {"models": [{"id": model} for model in IDS]}
