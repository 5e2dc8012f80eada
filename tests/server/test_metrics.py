"""The simulated listener."""

from __future__ import annotations

import pytest
from prometheus_client import generate_latest

from server.metrics import ListenerMeter, ServerMetrics

RATE = 1000


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def value(metrics: ServerMetrics, name: str) -> float:
    lines = generate_latest(metrics.registry).decode().splitlines()
    return next(float(line.split()[1]) for line in lines if line.split()[0] == name)


def play(chunks: list[tuple[float, float]], blocked_s: float = 0.0) -> ServerMetrics:
    """Chunks of ``(arrival in s, seconds of audio)``; the client blocks before the last one."""
    metrics, clock = ServerMetrics(), Clock()
    meter = ListenerMeter(metrics, clock.now, RATE, clock)
    for number, (at, audio_s) in enumerate(chunks):
        clock.now = 100.0 + at
        if number == len(chunks) - 1:
            meter.add_blocked(blocked_s)
        meter.add_chunk(round(audio_s * RATE))
    meter.finish()
    return metrics


def test_audio_that_comes_in_time_has_no_underrun() -> None:
    metrics = play([(0.1, 0.5), (0.5, 0.5), (1.0, 1.0)])

    assert value(metrics, "voxloom_underrun_total") == 0
    assert value(metrics, "voxloom_audio_seconds_total") == 2.0


def test_a_late_chunk_is_an_underrun_of_its_lateness() -> None:
    metrics = play([(0.0, 0.5), (0.8, 0.5), (1.2, 0.5), (2.0, 0.5)])

    # Dry at 0.5; goes on at 0.8 (0.3 late) until 1.8; the last chunk is 0.2 late.
    assert value(metrics, "voxloom_underrun_total") == 2
    assert value(metrics, "voxloom_underrun_seconds_total") == pytest.approx(0.5)


def test_a_client_that_did_not_read_makes_no_underrun() -> None:
    metrics = play([(0.0, 0.5), (5.0, 0.5)], blocked_s=4.8)

    assert value(metrics, "voxloom_underrun_total") == 0
    assert value(metrics, "voxloom_chunk_interval_seconds_sum") == pytest.approx(0.2)


def test_rtf_is_production_time_over_audio_time() -> None:
    metrics = play([(0.1, 1.0), (0.4, 3.0)])

    assert value(metrics, "voxloom_rtf_sum") == pytest.approx(0.1)


def test_a_request_without_audio_has_no_rtf() -> None:
    assert value(play([]), "voxloom_rtf_count") == 0
