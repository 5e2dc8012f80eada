"""What the talker learns from: how hibari's own prosody net speaks each sentence."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from onnx import TensorProto

from worker.models.hibari.graphs import read_voice
from worker.models.hibari.prosody_net import ProsodyNet, bundled_voice
from worker.models.hibari.sessions import open_session
from worker.models.hibari.text.draft import Span
from worker.models.hibari.text.phonemes import Phonemizer
from worker.models.hibari.text.sentences import Sentence
from worker.models.hibari_talker.phoneme_pitch import phoneme_pitches

FINE_SPEED = 0.01
"""At this speed durations come out in hundredths of a unit: the net rounds after it divides."""

FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Lesson:
    """One sentence as the teacher speaks it."""

    ids: npt.NDArray[np.int16]
    """[L] phoneme ids with both pads."""
    durations: FloatArray
    """[L] units of 25 ms, not rounded."""
    pitches: FloatArray
    """[L] semitones above 70 Hz; NaN for what has no pitch."""


class Teacher:
    """hibari's default voice."""

    def __init__(self) -> None:
        voice = read_voice(bundled_voice())
        self._name = voice.seams.durations
        cut = voice.cut(["ids", "speed"], {self._name: TensorProto.INT64})
        self._durations = open_session(cut.SerializeToString())
        self._net = ProsodyNet(voice)

    def speak(self, ids: npt.NDArray[np.int64]) -> Lesson:
        """Durations and pitch of a sentence of phoneme ids [L] with both pads."""
        feed = {"ids": ids[None], "speed": np.array([FINE_SPEED], np.float32)}
        fine = self._durations.run([self._name], feed)[0].reshape(-1)
        frames = self._net.run(ids, 1.0)
        pitches = phoneme_pitches(frames.durations, frames.f0)
        return Lesson(ids.astype(np.int16), (fine * FINE_SPEED).astype(np.float32), pitches)


@dataclass(frozen=True, slots=True)
class Lessons:
    """All sentences in one file: arrays end to end, and where each sentence ends."""

    ids: npt.NDArray[np.int16]
    durations: FloatArray
    pitches: FloatArray
    ends: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return self.ends.size

    def __getitem__(self, index: int) -> Lesson:
        part = slice(self.ends[index - 1] if index else 0, self.ends[index])
        return Lesson(self.ids[part], self.durations[part], self.pitches[part])

    def lengths(self) -> npt.NDArray[np.int64]:
        """[number of sentences] phonemes of each."""
        return np.diff(self.ends, prepend=0)

    def save(self, path: Path) -> None:
        """Whole or not at all. ``path`` ends in .npz."""
        partial = path.with_suffix(".partial.npz")
        np.savez(
            partial,
            ids=self.ids,
            durations=self.durations,
            pitches=self.pitches,
            ends=self.ends,
        )
        partial.replace(path)

    @classmethod
    def load(cls, path: Path) -> Lessons:
        with np.load(path) as data:
            return cls(data["ids"], data["durations"], data["pitches"], data["ends"])

    @classmethod
    def join(cls, lessons: Sequence[Lesson]) -> Lessons:
        return cls(
            np.concatenate([each.ids for each in lessons]),
            np.concatenate([each.durations for each in lessons]),
            np.concatenate([each.pitches for each in lessons]),
            np.cumsum([each.ids.size for each in lessons], dtype=np.int64),
        )


def teach(sentences: Sequence[str], report_every: int = 1000) -> Lessons:
    """Have the teacher speak sentences; progress goes to stderr. What has no sound is left out."""
    teacher, phonemizer = Teacher(), Phonemizer()
    lessons: list[Lesson] = []
    for number, text in enumerate(sentences, 1):
        chunks = phonemizer.chunks(Sentence(text, Span(0, len(text)), True))
        lessons += [teacher.speak(chunk.ids) for chunk in chunks]
        if number % report_every == 0:
            print(f"{number} of {len(sentences)} sentences", file=sys.stderr, flush=True)
    return Lessons.join(lessons)
