"""Silero's network in a loop: when it finds that speech begins and ends, in this process."""

from __future__ import annotations

import numpy as np
import soxr

from benchmarks.speech_client import SAMPLE_RATE, Pcm, as_float
from worker.models.silero_vad.detection import Change, Detection, Edge, SpeechDetector
from worker.models.silero_vad.probabilities import (
    FRAME_SAMPLES,
    SpeechNet,
    SpeechProbabilities,
    model_path,
)
from worker.models.silero_vad.probabilities import SAMPLE_RATE as EAR_RATE

# Before the speech and behind it.
_SILENCE_S = 1.0
# Where in a frame of the network speech may begin.
_SHIFTS_S = (0.0, 0.008, 0.016, 0.024)


class BareEar:
    """Times are in ms of audio: what a listener that takes no time at all would need."""

    def __init__(self, silence_duration_ms: int) -> None:
        self._net = SpeechNet(model_path())
        self._detection = Detection(silence_duration_ms=silence_duration_ms)

    def until_begun_ms(self, speech: Pcm) -> list[float]:
        """From the first sample of speech to where it is sure to be speech.

        Several times, since it depends on where in a frame speech begins.
        """
        found = []
        for shift_s in _SHIFTS_S:
            changes = self._changes(speech, _SILENCE_S + shift_s)
            begun = next(c for c in changes if c.edge is Edge.STARTED)
            found.append(1000 * (begun.seen_at / EAR_RATE - _SILENCE_S - shift_s))
        return found

    def until_ended_ms(self, speech: Pcm) -> float:
        """From its last sample to where its end is sure."""
        ended = [c for c in self._changes(speech) if c.edge is Edge.STOPPED][-1]
        return 1000 * (ended.seen_at / EAR_RATE - _SILENCE_S - len(speech) / SAMPLE_RATE)

    def num_turns(self, speech: Pcm) -> int:
        """How many turns it takes the speech for."""
        return sum(change.edge is Edge.STOPPED for change in self._changes(speech))

    def _changes(self, speech: Pcm, before_s: float = _SILENCE_S) -> list[Change]:
        before = np.zeros(round(before_s * SAMPLE_RATE), np.float32)
        behind = np.zeros(round(_SILENCE_S * SAMPLE_RATE), np.float32)
        heard = np.concatenate([before, as_float(speech), behind])
        audio = soxr.resample(heard, SAMPLE_RATE, EAR_RATE)
        whole = audio[: len(audio) // FRAME_SAMPLES * FRAME_SAMPLES]
        detector = SpeechDetector(self._detection)
        found: list[Change] = []
        for probability in SpeechProbabilities(self._net).feed(whole):
            found += detector.feed(float(probability))
        return found
