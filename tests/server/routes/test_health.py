"""Probes tell the truth."""

from __future__ import annotations

import asyncio
from typing import Any

from server.app import create_app
from tests.server.asgi_client import request
from tests.server.fake_engine import FakeEngine


class FailedEngine(FakeEngine):
    def readiness(self) -> dict[str, Any]:
        return super().readiness() | {"failure": "stage wave cannot start"}


def test_ready_follows_the_engine() -> None:
    engine = FakeEngine()
    app = create_app(engine)
    before = request(app, "GET", "/ready")
    engine.start()
    during = request(app, "GET", "/ready")
    asyncio.run(engine.shutdown())
    after = request(app, "GET", "/ready")

    assert [answer.status for answer in (before, during, after)] == [503, 200, 503]
    assert during.json() == {
        "status": "ready",
        "failure": None,
        "stages": {"text": {"ready": 1, "wanted": 1}, "wave": {"ready": 1, "wanted": 1}},
    }


def test_health_does_not_wait_for_the_engine() -> None:
    answer = request(create_app(FakeEngine()), "GET", "/health")

    assert (answer.status, answer.json()) == (200, {"status": "ok"})


def test_an_engine_that_has_given_up_is_not_healthy() -> None:
    answer = request(create_app(FailedEngine()), "GET", "/health")

    assert (answer.status, answer.json()) == (503, {"status": "failed"})
