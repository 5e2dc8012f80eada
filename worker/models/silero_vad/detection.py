"""What counts as speech and what as a pause: the settings, and the rule frame by frame.

    silence ──``begin_frames`` frames at or above threshold──> speech
    speech  ──``silence_duration_ms`` below the lower threshold──> silence

Frames between the two thresholds change nothing: they keep a pause from ending, and speech too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

import msgspec

from worker.models.silero_vad.probabilities import FRAME_SAMPLES, SAMPLE_RATE

# Silero's own rule: the end of speech is asked for at a probability this much lower.
_HYSTERESIS = 0.15
_MIN_LOWER_THRESHOLD = 0.01


class Detection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """OpenAI's ``server_vad`` settings; the defaults are theirs."""

    threshold: float = 0.5
    prefix_padding_ms: int = 300
    silence_duration_ms: int = 500

    @property
    def lower_threshold(self) -> float:
        return max(self.threshold - _HYSTERESIS, _MIN_LOWER_THRESHOLD)

    @property
    def prefix_samples(self) -> int:
        return self.prefix_padding_ms * SAMPLE_RATE // 1000

    @property
    def silence_samples(self) -> int:
        return self.silence_duration_ms * SAMPLE_RATE // 1000


def read_detection(settings: dict[str, Any] | None) -> Detection | None:
    """The settings as a prompt carries them; the caller's side has checked them."""
    return None if settings is None else msgspec.convert(settings, Detection)


class Edge(Enum):
    STARTED = auto()  # speech began at ``sample``
    PAUSED = auto()  # silence since ``sample``, not yet long enough to end it
    RESUMED = auto()  # speech went on after a pause
    STOPPED = auto()  # speech ended at ``sample``


@dataclass(frozen=True, slots=True)
class Change:
    """``sample`` is where it happened, ``seen_at`` the end of the frame that showed it."""

    edge: Edge
    sample: int
    seen_at: int


class SpeechDetector:
    """The rule over a stream of frames that begins at ``first_sample``.

    ``pause_samples`` of silence are reported as a pause; None: pauses are not reported. Speech
    begins with ``begin_frames`` loud frames in a row: live with one, as Silero's own iterator has
    it, for somebody who interrupts must be heard at once, and clicks, knocks and noise stay far
    below the threshold.
    """

    def __init__(
        self,
        detection: Detection,
        first_sample: int = 0,
        pause_samples: int | None = None,
        begin_frames: int = 1,
    ) -> None:
        self.detection = detection
        self._pause_samples = pause_samples
        self._begin_frames = begin_frames
        self._position = first_sample
        self._num_loud = 0
        self._silent_since: int | None = None
        self._is_paused = False
        self.is_speech = False

    def feed(self, probability: float) -> Iterator[Change]:
        """The changes that one more frame brings."""
        begin, self._position = self._position, self._position + FRAME_SAMPLES
        is_loud = probability >= self.detection.threshold
        self._num_loud = self._num_loud + 1 if is_loud else 0
        if self.is_speech:
            yield from self._in_speech(begin, is_loud, probability)
        elif self._num_loud == self._begin_frames:
            self.is_speech = True
            yield self._change(Edge.STARTED, begin - (self._begin_frames - 1) * FRAME_SAMPLES)

    def stop(self) -> None:
        """Speech is over because someone said so."""
        self.is_speech = self._is_paused = False
        self._num_loud, self._silent_since = 0, None

    def _in_speech(self, begin: int, is_loud: bool, probability: float) -> Iterator[Change]:
        if is_loud:
            if self._is_paused:
                yield self._change(Edge.RESUMED, begin)
            self._silent_since, self._is_paused = None, False
            return
        if self._silent_since is None:
            if probability >= self.detection.lower_threshold:
                return
            self._silent_since = begin
        silence = self._position - self._silent_since
        if silence >= max(self.detection.silence_samples, FRAME_SAMPLES):
            since = self._silent_since
            self.stop()
            yield self._change(Edge.STOPPED, since)
        elif self._is_new_pause(silence):
            self._is_paused = True
            yield self._change(Edge.PAUSED, self._silent_since)

    def _is_new_pause(self, silence: int) -> bool:
        if self._pause_samples is None or self._is_paused:
            return False
        return silence >= self._pause_samples

    def _change(self, edge: Edge, sample: int) -> Change:
        return Change(edge, sample, self._position)
