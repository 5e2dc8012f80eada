"""Stage 1 of hibari: frames to audio, a few frames per request and step."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from engine.messages import Fingerprint, Payload, StageRequest, StageUpdate
from worker.fingerprint import make_fingerprint
from worker.models.hibari.acoustic import Code2Wav, SentenceStream
from worker.models.hibari.prosody_net import bundled_voice
from worker.models.hibari.shape import NEUTRAL, VoiceShape
from worker.models.hibari.units import is_silent
from worker.pcm import Int16Array, to_int16
from worker.rows import AudioRow, RowStage, declare_sparse, replay_start
from worker.stage_model import RowStatus, StageContext, StepOutput

# First and last sample of a word in the request's stream, and its first and last character in the
# request's text.
Word: TypeAlias = tuple[int, int, int, int]
# First and last character of a sentence in the request's text, and whether it ends with the chunk.
SentencePart: TypeAlias = tuple[int, int, bool]

FRAME_SAMPLES = 300  # 12.5 ms at 24 kHz
# The model starts each sentence with about 0.32 s of silence. Where speech begins, this much of it
# is kept.
_LEAD_FRAMES = 4
# Words sound this much before the durations say: the onsets of 240 words, found by their energy,
# were 37 ms early on average, at each place in a sentence (tests/e2e/test_word_times.py looks).
_EARLY_FRAMES = 3
# Frames per step, by the frame at which the step starts, counted from where speech begins. The
# first brings the look-ahead of decoder and vocoder (26 frames, in multiples of 8) and 200 ms of
# sound: 100 ms of them cost 1 ms, and are what the next step's wait behind others may take. The
# later ones grow, since a listener then has audio in hand and longer steps cost less.
_FIRST_STEP_FRAMES = 44
_WARM_UP_ID = 43  # "a", any sound would do
_PLAN = ((0, 24), (24, 48), (72, 96), (168, 192))


@dataclass(slots=True, kw_only=True)
class Listening(AudioRow):
    """A request, and the sentence of it that is being made into samples, the first of ``units``."""

    cut_position: int
    stream: SentenceStream | None = None
    words: list[Word] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    num_pushed: int = 0  # frames of the open sentence


class Code2WavStage(RowStage[Listening]):
    """Opens a later sentence in a step of its own: that keeps every step short.

    Such a step has no audio, so a batch has strict subsets of its rows with audio.
    """

    def __init__(self) -> None:
        super().__init__()
        self._models: dict[str, Code2Wav] = {}
        self._model_lock = threading.Lock()

    def warm_up(self) -> None:
        """Load the default voice's model and decode some hum in steps of all sizes.

        Memory for each size is taken at its first use; the first listener should not wait for it.
        """
        num_units = 400
        ids = np.full(num_units, _WARM_UP_ID, np.int64)
        durations = np.ones(num_units, np.int32)
        pitch = np.full(2 * num_units, 150.0, np.float32)
        energy = np.zeros(2 * num_units, np.float32)
        stream = self.model("").open(ids, durations, pitch, energy, seed=0, shape=NEUTRAL)
        for num_frames in (_FIRST_STEP_FRAMES, *(size for _, size in _PLAN)):
            to_int16(stream.step(num_frames))

    def add(self, request: StageRequest) -> None:
        self._rows[request.request_id] = Listening(
            cut_position=request.cut_position, **replay_start(request)
        )

    def update(self, update: StageUpdate) -> None:
        request = self._rows[update.request_id]
        self.take_payload(request, update.payload)
        request.is_open = not update.final

    def has_work(self, request_id: str) -> bool:
        row = self._rows.get(request_id)
        return row is not None and self.can_advance(row)

    def step(self, batch: Sequence[str]) -> StepOutput:
        audio: dict[str, Int16Array] = {}
        words: dict[str, list[Word]] = {}
        sentences: dict[str, SentencePart] = {}
        warnings: dict[str, list[str]] = {}
        rows: dict[str, RowStatus] = {}
        for request_id in batch:
            request = self._rows[request_id]
            num_units, start = request.units_done, request.position
            sentence_start = request.done_position
            unit = request.units[0] if request.units else None
            try:
                samples = self._advance(request)
            except Exception as error:
                rows[request_id] = RowStatus(error=error)
                continue
            if unit is not None and (len(samples) or is_silent(unit)):
                audio[request_id] = samples
                chunk = range(start, request.position)
                words[request_id] = self.words_of(request, unit, sentence_start, chunk)
                warnings[request_id], request.warnings = request.warnings, []
                is_whole = request.units_done > num_units
                sentences[request_id] = _sentence_part(unit, is_whole)
            rows[request_id] = request.status()
        outputs = declare_sparse(list(audio)) | {
            "audio": list(audio.values()),
            "words": list(words.values()),
            "sentence": list(sentences.values()),
            "warnings": list(warnings.values()),
        }
        return StepOutput(outputs, rows)

    def fingerprint(self) -> Fingerprint:
        return make_fingerprint([Path(bundled_voice())])

    def _advance(self, request: Listening) -> Int16Array:
        """Take a request one step further; the samples to send, int16 [n], maybe none."""
        if not request.units:
            return np.zeros(0, np.int16)
        if is_silent(request.units[0]):
            request.warnings += request.units[0]["warnings"]
            request.close_unit()
            return np.zeros(0, np.int16)
        if request.stream is None:
            request.stream = self.open_sentence(request)
            if not request.units[0]["begins"]:
                return np.zeros(0, np.int16)
        else:
            self.extend_sentence(request, request.stream)
        stream = request.stream
        num_frames = step_frames(request)
        request.num_pushed += num_frames
        to_send = request.emit(stream.step(num_frames))
        if stream.finished:
            request.close_unit(request.units[0].get("num_inputs", 1))
            request.num_pushed = 0
            request.stream = None
        return to_int16(to_send)

    # What another family's stage does in its own way.

    def take_payload(self, request: Listening, payload: Payload) -> None:
        """One input, unless it only says that no more follow."""
        if "unit" in payload:
            request.units.append(payload["unit"])

    def can_advance(self, request: Listening) -> bool:
        """Whether a step would do something."""
        return request.has_work

    def extend_sentence(self, request: Listening, stream: SentenceStream) -> None:
        """What is to be done before the sentence is stepped."""

    def words_of(
        self, request: Listening, unit: dict[str, Any], sentence_start: int, chunk: range
    ) -> list[Word]:
        """The words to send with the samples of a chunk, of a unit that began at a sample."""
        words, request.words = request.words, []
        return words

    def open_sentence(self, request: Listening) -> SentenceStream:
        """The first unit's samples, from the beginning."""
        unit = request.units[0]
        if request.done_position >= request.skip_position:  # else they were sent before a replay
            request.words = place_words(unit, request.done_position)
            request.warnings += unit.get("warnings", ())
        return self.model(unit["model_path"]).open(
            unit["ids"],
            unit["durations"],
            unit["f0"],
            unit["energy"],
            seed=unit["seed"],
            shape=VoiceShape(**unit["shape"]),
            skip_frames=num_skipped_frames(unit),
        )

    def model(self, model_path: str) -> Code2Wav:
        """The decoder of a model file, loaded on first use; "" is the packaged one."""
        with self._model_lock:
            if model_path not in self._models:
                path = Path(model_path) if model_path else None
                self._models[model_path] = Code2Wav.load(path)
            return self._models[model_path]


def load(_context: StageContext) -> Code2WavStage:
    stage = Code2WavStage()
    stage.warm_up()
    return stage


def place_words(unit: dict[str, Any], start_sample: int) -> list[Word]:
    """The words of a unit whose first sample is ``start_sample``, from the model's durations."""
    ends = 2 * FRAME_SAMPLES * np.cumsum(unit["durations"], dtype=np.int64)
    offset = start_sample - (num_skipped_frames(unit) + _EARLY_FRAMES) * FRAME_SAMPLES
    return [
        (
            max(start_sample, offset + int(ends[first_id - 1])),
            offset + int(ends[last_id - 1]),
            first_char,
            last_char,
        )
        for first_id, last_id, first_char, last_char in unit["words"]
    ]


def num_skipped_frames(unit: dict[str, Any]) -> int:
    """Where speech begins, the frames of the leading pad beyond those that are kept."""
    return max(0, 2 * int(unit["durations"][0]) - _LEAD_FRAMES) if unit["begins"] else 0


def _sentence_part(unit: dict[str, Any], is_whole: bool) -> SentencePart:
    """What a chunk of a unit's audio is of its sentence; ``is_whole``: the unit ends with it."""
    first_char, last_char, ends_sentence = unit.get("sentence", (0, 0, False))
    return (first_char, last_char, ends_sentence and is_whole)


def step_frames(request: Listening) -> int:
    """How many frames the next step takes; a function of the position in the request alone."""
    unit = request.units[0]
    if unit["begins"] and request.num_pushed == 0:
        return num_skipped_frames(unit) + _FIRST_STEP_FRAMES
    position = (request.position - request.cut_position) // FRAME_SAMPLES
    return next(size for first, size in reversed(_PLAN) if position >= first)
