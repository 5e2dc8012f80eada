"""The metrics page."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from server.app import create_app
from tests.server.asgi_client import request
from tests.server.fake_engine import FakeEngine

NAMES = {
    "voxloom_requests",
    "voxloom_ttfa_seconds",
    "voxloom_rtf",
    "voxloom_audio_seconds",
    "voxloom_chunk_interval_seconds",
    "voxloom_event_loop_lag_seconds",
    "voxloom_underrun",
    "voxloom_underrun_seconds",
}


def test_the_page_is_prometheus_text_with_all_families() -> None:
    app = create_app(FakeEngine())
    request(app, "GET", "/none")

    answer = request(app, "GET", "/metrics")

    assert answer.headers["content-type"].startswith("text/plain; version=")
    families = {f.name: f for f in text_string_to_metric_families(answer.body.decode())}
    assert set(families) >= NAMES
    labels = [s.labels for s in families["voxloom_requests"].samples if s.name.endswith("_total")]
    assert labels == [{"route": "unmatched", "outcome": "client_error"}]
