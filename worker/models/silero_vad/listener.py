"""Turns of speech in live audio: when they begin and end, and what was said in them.

    clear, silence ──speech──> in a turn ──pause long enough, commit, or max length──> silence

Without detection (``detection`` None) a turn is what came between two commits.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np

from worker.models.silero_vad.detection import Change, Detection, Edge, SpeechDetector
from worker.models.silero_vad.probabilities import (
    FRAME_SAMPLES,
    SAMPLE_RATE,
    Samples,
    SpeechNet,
    SpeechProbabilities,
)

# A turn without a pause is cut here: its audio is kept until it is recognised.
MAX_TURN_SAMPLES = 120 * SAMPLE_RATE
# Three frames of silence: many pauses between sentences are longer, few between words.
_GUESS_PAUSE_SAMPLES = 3 * FRAME_SAMPLES
# The network has forgotten what was this long ago: a replay may begin there.
_WARM_UP_SAMPLES = 3 * SAMPLE_RATE


@dataclass(frozen=True, slots=True)
class Heard:
    """Something to tell, with samples counted from the beginning of the stream.

    ``kind``: ``started`` (a turn began at ``first_sample``), ``guess`` (what there is of a turn in
    which a pause has begun) or ``stopped`` (a whole turn). ``guess`` is the last sample of a guess:
    its own, or of the one that holds all speech of the turn. ``is_committed``: a commit ended it.
    ``is_detected``: there is speech in it; else somebody only said where it ends.
    """

    kind: str
    first_sample: int
    last_sample: int
    speech: Samples | None = None
    guess: int | None = None
    is_committed: bool = False
    is_detected: bool = True

    def to_payload(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "first_sample": self.first_sample,
            "last_sample": self.last_sample,
            "speech": self.speech,
            "guess": self.guess,
            "is_committed": self.is_committed,
            "is_detected": self.is_detected,
        }


class Listener:
    """One live stream. ``detection`` may change at any time; ``guesses`` asks for guesses."""

    def __init__(
        self, net: SpeechNet, detection: Detection | None, *, guesses: bool = False, start: int = 0
    ) -> None:
        self._net = net
        self._guesses = guesses
        self._pieces: deque[Samples] = deque()
        self._begin = self._end = self._scanned = start
        self._turn_first: int | None = None
        self._last_event = start
        self._turn_end = start
        self._num_skipped = 0
        self._guess: int | None = None
        self._probabilities: SpeechProbabilities | None = None
        self._detector = SpeechDetector(Detection(), start)
        self.set_detection(detection)

    @property
    def end(self) -> int:
        """The sample behind the last one that was fed."""
        return self._end

    def set_detection(self, detection: Detection | None) -> None:
        """From now on; a turn that has begun goes on."""
        self._detection = detection
        if detection is None:
            self._probabilities = None
            return
        if self._probabilities is None:
            self._probabilities = SpeechProbabilities(self._net)
            # Frames begin at multiples of their length, so that a replay finds the same ones.
            self._num_skipped = -self._end % FRAME_SAMPLES
            self._scanned = self._end + self._num_skipped
        pause = _GUESS_PAUSE_SAMPLES if self._guesses else None
        self._detector = SpeechDetector(detection, self._scanned, pause)
        self._detector.is_speech = self._turn_first is not None

    def clear(self) -> None:
        """Forget what has been heard, a turn that has begun included."""
        self._turn_first, self._guess = None, None
        self._drop_before(self._end)
        if self._detection is not None:
            self._detector.stop()

    def feed(self, audio: Samples) -> list[Heard]:
        """More audio, float32 [samples] at 16 kHz."""
        self._pieces.append(audio)
        self._end += len(audio)
        heard: list[Heard] = []
        if self._detection is None or self._probabilities is None:
            heard += self._cut_if_long()
            return heard
        num_skipped = min(self._num_skipped, len(audio))
        self._num_skipped -= num_skipped
        for probability in self._probabilities.feed(audio[num_skipped:]):
            self._scanned += FRAME_SAMPLES
            for change in self._detector.feed(float(probability)):
                heard += self._take(change)
            heard += self._cut_if_long()
        if self._turn_first is None:
            self._drop_before(self._scanned - self._detection.prefix_samples - 2 * FRAME_SAMPLES)
        return heard

    def commit(self) -> list[Heard]:
        """End the turn here, whatever has been heard of it."""
        first = self._turn_first
        if first is None:
            first = self._begin
        heard = [self._stopped(first, self._end, is_committed=True)] if self._end > first else []
        self.clear()
        return heard

    def finish(self) -> list[Heard]:
        """No more audio comes: end the turn that has begun, or without detection what there is."""
        is_open = self._detection is None or self._turn_first is not None
        return self.commit() if is_open else []

    def settled_sample(self) -> int | None:
        """What came before this sample need not be heard again by a replay; None: all of it."""
        if self._turn_first is not None or self._detection is None:
            return None
        settled = self._scanned - _WARM_UP_SAMPLES
        return settled if settled > self._last_event else None

    def _take(self, change: Change) -> list[Heard]:
        assert self._detection is not None
        self._last_event = change.seen_at
        match change.edge:
            case Edge.STARTED:
                # Padding never reaches into the turn before: that is written down already.
                first = max(
                    self._begin, self._turn_end, change.sample - self._detection.prefix_samples
                )
                self._turn_first = first
                return [Heard("started", first, change.seen_at)]
            case Edge.PAUSED if self._turn_first is not None:
                self._guess = change.seen_at
                speech = self._audio(self._turn_first, change.seen_at)
                return [Heard("guess", self._turn_first, change.seen_at, speech, self._guess)]
            case Edge.RESUMED:
                self._guess = None
            case Edge.STOPPED if self._turn_first is not None:
                stopped = self._stopped(self._turn_first, change.seen_at)
                self._turn_first, self._guess = None, None
                return [stopped]
        return []

    def _stopped(self, first: int, last: int, *, is_committed: bool = False) -> Heard:
        self._turn_end = last
        speech = self._audio(first, last)
        is_detected = self._turn_first is not None
        return Heard("stopped", first, last, speech, self._guess, is_committed, is_detected)

    def _cut_if_long(self) -> list[Heard]:
        """End a turn of the maximal length; what follows is the next one."""
        first = self._begin if self._detection is None else self._turn_first
        end = self._end if self._detection is None else self._scanned
        if first is None or end - first < MAX_TURN_SAMPLES:
            return []
        heard = [self._stopped(first, end)]
        if self._detection is not None:
            self._turn_first = end
            heard.append(Heard("started", end, end))
        self._guess = None
        self._drop_before(end)
        return heard

    def _audio(self, first: int, last: int) -> Samples:
        """The samples from ``first`` to before ``last``."""
        joined = np.concatenate(self._pieces)
        self._pieces = deque([joined])
        return joined[first - self._begin : last - self._begin].copy()

    def _drop_before(self, sample: int) -> None:
        """Forget whole pieces and parts of one, up to ``sample``."""
        while self._pieces and self._begin + len(self._pieces[0]) <= sample:
            self._begin += len(self._pieces.popleft())
        if self._pieces and self._begin < sample:
            self._pieces[0] = self._pieces[0][sample - self._begin :].copy()
            self._begin = sample
