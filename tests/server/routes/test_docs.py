"""The page that describes the API."""

from __future__ import annotations

from server.app import create_app
from server.routes.docs import render
from server.schemas.speech import SpeechRequest
from tests.server.asgi_client import request
from tests.server.fake_engine import FakeEngine


def test_every_path_and_every_field_of_a_request_is_on_the_page() -> None:
    app = create_app(FakeEngine())

    page = request(app, "GET", "/docs").body.decode()

    for path in app.openapi()["paths"]:
        assert f" {path}</code>" in page
    for field in SpeechRequest.model_fields:
        assert f"<code>{field}</code>" in page


def test_the_page_loads_nothing_from_elsewhere() -> None:
    page = request(create_app(FakeEngine()), "GET", "/docs").body.decode()

    assert "http" not in page
    assert "<script" not in page


def test_texts_are_escaped() -> None:
    document = {"paths": {"/<x>": {"get": {"summary": "<b>", "responses": {"200": {}}}}}}

    page = render(document)

    assert "/&lt;x&gt;" in page
    assert "<b>" not in page
