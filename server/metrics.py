"""What the server measures: requests by route and outcome, and how each listener fared."""

from __future__ import annotations

import time
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Histogram

Clock = Callable[[], float]

_TTFA_BUCKETS_S = (0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1, 2, 5, 10, 30)
_RTF_BUCKETS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2, 5)
_LAG_BUCKETS_S = (0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.05, 0.1, 0.25, 1)
_INTERVAL_BUCKETS_S = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)


class ServerMetrics:
    """The server's own collectors, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "voxloom_requests",
            "HTTP requests and WebSockets that have ended",
            ["route", "outcome"],
            registry=self.registry,
        )
        self.ttfa = Histogram(
            "voxloom_ttfa_seconds",
            "From a request's arrival to its first audio byte",
            buckets=_TTFA_BUCKETS_S,
            registry=self.registry,
        )
        self.rtf = Histogram(
            "voxloom_rtf",
            "Time to produce a request's audio, over the audio's duration",
            buckets=_RTF_BUCKETS,
            registry=self.registry,
        )
        self.chunk_interval = Histogram(
            "voxloom_chunk_interval_seconds",
            "Between two chunks of one request, without the time its client took to read",
            buckets=_INTERVAL_BUCKETS_S,
            registry=self.registry,
        )
        self.loop_lag = Histogram(
            "voxloom_event_loop_lag_seconds",
            "How late the event loop was, sampled 20 times a second",
            buckets=_LAG_BUCKETS_S,
            registry=self.registry,
        )
        self.audio_seconds = self._counter(
            "voxloom_audio_seconds", "Audio produced for clients, in seconds"
        )
        self.transcribed_seconds = self._counter(
            "voxloom_transcribed_seconds", "Recordings that were written down, in seconds of audio"
        )
        self.underruns = self._counter(
            "voxloom_underrun", "Times a player that began at the first chunk would have run dry"
        )
        self.underrun_seconds = self._counter(
            "voxloom_underrun_seconds", "Silence that such players would have had, in seconds"
        )

    def count_request(self, route: str, outcome: str) -> None:
        self._requests.labels(route, outcome).inc()

    def _counter(self, name: str, text: str) -> Counter:
        return Counter(name, text, registry=self.registry)


class ListenerMeter:
    """One request, seen by a real-time player that began at the first chunk.

    The time in which the client itself did not read counts neither as production time nor towards
    an underrun. Times are seconds of ``clock``; ``started_at`` is the request's arrival.
    """

    def __init__(
        self,
        metrics: ServerMetrics,
        started_at: float,
        sample_rate: int,
        clock: Clock = time.monotonic,
    ) -> None:
        self._metrics = metrics
        self._started_at = started_at
        self._sample_rate = sample_rate
        self._clock = clock
        self._blocked_s = 0.0
        self._stalled_s = 0.0
        self._first_at: float | None = None
        self._last_at = 0.0
        self.num_samples = 0

    @property
    def audio_s(self) -> float:
        return self.num_samples / self._sample_rate

    def add_chunk(self, num_samples: int) -> None:
        """A chunk has come from the engine."""
        now = self._clock() - self._blocked_s
        if self._first_at is None:
            self._first_at = now
        else:
            self._metrics.chunk_interval.observe(now - self._last_at)
            self._note_underrun(now - self._first_at)
        self._last_at = now
        self.num_samples += num_samples
        self._metrics.audio_seconds.inc(num_samples / self._sample_rate)

    def add_blocked(self, seconds: float) -> None:
        """The client took this long to take what was sent."""
        self._blocked_s += seconds

    def first_byte_sent(self) -> None:
        self._metrics.ttfa.observe(self._clock() - self._started_at)

    def finish(self) -> None:
        """All of the request's audio has come."""
        if self.num_samples:
            self._metrics.rtf.observe((self._last_at - self._started_at) / self.audio_s)

    def _note_underrun(self, since_first_s: float) -> None:
        late_s = since_first_s - self._stalled_s - self.audio_s
        if late_s > 0:
            self._stalled_s += late_s
            self._metrics.underruns.inc()
            self._metrics.underrun_seconds.inc(late_s)
