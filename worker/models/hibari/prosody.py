"""Stage 0 of hibari: text to sentences to phonemes to durations, pitch and energy per frame."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.errors import InvalidRequestError
from engine.messages import Fingerprint, Payload, StageInteraction, StageRequest, StageUpdate
from worker.fingerprint import make_fingerprint
from worker.models.hibari.prosody_net import ProsodyNet, bundled_voice
from worker.models.hibari.text.clean import unpack_clean
from worker.models.hibari.text.phonemes import Phonemizer
from worker.models.hibari.text_source import Speaker, SpokenChunk, TextSource
from worker.models.hibari.units import make_silent_unit, make_unit
from worker.rows import UnitStage
from worker.seeds import nth_seed
from worker.stage_model import RowStatus, StageContext

_WARM_UP_TEXT = "Good morning, everyone, and welcome to the show; we have a lot to talk about."


@dataclass(slots=True)
class _Request:
    """A request's text on its way through the front end, one phoneme chunk per step.

    ``position`` counts units. A replay may start at any sentence: at ``resume_at`` (see
    ``TextSource``) of the inputs from ``units_done`` on. ``text_ends`` holds where the text ended
    with each of those.
    """

    source: TextSource
    speaker: Speaker
    seed: int
    is_resumable: bool
    is_open: bool
    num_inputs: int
    position: int
    skip_position: int
    cut_position: int
    units_done: int
    done_position: int
    resume_at: int
    text_ends: deque[tuple[int, int]] = field(default_factory=deque)

    @property
    def has_work(self) -> bool:
        return not (self.is_open and self.source.is_exhausted)

    @property
    def owes_warnings(self) -> bool:
        """The text has ended, and something of it behind the last chunk is to be told.

        Nothing is if nothing was spoken of a text that came whole: the request fails.
        """
        has_ended = not self.is_open and self.source.is_exhausted
        is_spoken = self.is_resumable or self.position > 0
        return has_ended and is_spoken and self.source.has_warnings

    def status(self) -> RowStatus:
        has_ended = not self.is_open and self.source.is_exhausted
        return RowStatus(
            finished=has_ended and not self.owes_warnings,
            end_position=max(self.position, self.skip_position),
            units_done=self.units_done,
            done_position=self.done_position,
            checkpoint={"resume_at": self.resume_at},
        )

    def feed(self, unit: int, text: str, offset: int) -> None:
        """A segment; what was spoken before a replay is left out."""
        self.note_input(unit, offset + len(text))
        num_spoken = max(0, min(self.resume_at - offset, len(text)))
        self.source.feed(text[num_spoken:], offset + num_spoken)

    def note_input(self, unit: int, text_end: int) -> None:
        self.num_inputs = unit + 1
        self.text_ends.append((unit, text_end))

    def note_progress(self) -> None:
        """Note where a replay may start, if it may do so here."""
        resume_at = self.source.resume_at
        if self.is_resumable and self.source.is_empty:
            self.units_done, self.done_position = self.num_inputs, self.position
            self.text_ends.clear()
        elif resume_at is not None:
            self.done_position, self.resume_at = self.position, resume_at
            while self.text_ends and self.text_ends[0][1] <= resume_at:
                self.units_done = self.text_ends.popleft()[0] + 1


class ProsodyStage(UnitStage[_Request]):
    """One unit per request and step. Text is read lazily: a book starts as soon as a line."""

    output_name = "unit"

    def __init__(self) -> None:
        super().__init__()
        self._phonemizers = {british: Phonemizer(british) for british in (False, True)}
        self._nets: dict[str, ProsodyNet] = {}
        self._net_lock = threading.Lock()

    def warm_up(self) -> None:
        """Load what the default voice needs and run it on a sentence of ordinary length."""
        self._phonemizers[False].warm_up()
        source = TextSource(self._phonemizers, Speaker(1.0, False, "", {}))
        source.feed(_WARM_UP_TEXT, 0)
        source.flush()
        while (chunk := source.take()) is not None:
            self._net("").run(chunk.phonemes.ids, 1.0)

    def add(self, request: StageRequest) -> None:
        prompt = request.prompt
        speaker = _speaker(prompt)
        state = _Request(
            source=TextSource(self._phonemizers, speaker),
            speaker=speaker,
            seed=request.seed,
            is_resumable=request.resumable,
            is_open=request.resumable,
            num_inputs=max(1, request.first_unit),
            position=request.start_position,
            skip_position=request.skip_position,
            cut_position=request.cut_position,
            units_done=request.first_unit,
            done_position=request.start_position,
            resume_at=(request.checkpoint or {}).get("resume_at", 0),
        )
        if not request.resumable:
            state.source.put_clean(unpack_clean(prompt), state.resume_at)
        elif request.first_unit == 0:
            state.feed(0, prompt["text"], 0)
        self._rows[request.request_id] = state

    def update(self, update: StageUpdate) -> None:
        request = self._rows[update.request_id]
        payload = update.payload
        request.feed(update.unit, payload.get("text", ""), payload.get("text_offset", 0))
        if update.final:
            request.source.flush()
            request.is_open = False

    def interact(self, interaction: StageInteraction) -> None:
        """Flush: speak what is buffered. Update: another speaker for the text after it."""
        request = self._rows[interaction.request_id]
        text_end = request.text_ends[-1][1] if request.text_ends else request.resume_at
        request.note_input(interaction.unit, text_end)
        if interaction.kind == "flush":
            request.source.flush()
        else:
            request.source.update(_speaker(interaction.arguments))

    def fingerprint(self) -> Fingerprint:
        return make_fingerprint([Path(bundled_voice())])

    def next_unit(self, row: _Request) -> Payload | None:
        chunk = row.source.take()
        if chunk is None and row.owes_warnings:
            number, warnings = row.position, row.source.take_warnings()
            row.position += 1
            row.note_progress()
            return None if number < row.skip_position else make_silent_unit(warnings)
        if chunk is None:
            if row.position == 0 and not row.is_resumable:
                raise InvalidRequestError("input holds nothing that can be spoken", param="input")
            row.note_progress()
            return None
        number = row.position
        row.position += 1
        row.note_progress()
        return None if number < row.skip_position else self._make_unit(row, chunk, number)

    def _make_unit(self, request: _Request, chunk: SpokenChunk, number: int) -> Payload:
        speaker = chunk.speaker
        frames = self._net(speaker.model_path).run(chunk.phonemes.ids, speaker.speed)
        return make_unit(
            chunk.phonemes,
            frames,
            seed=nth_seed(request.seed, number),
            begins=number == request.cut_position,
            sentence=chunk.sentence,
            ends_sentence=chunk.ends_sentence,
            locate=chunk.locate,
            shape=speaker.shape,
            model_path=speaker.model_path,
            warnings=chunk.warnings,
        )

    def _net(self, model_path: str) -> ProsodyNet:
        """The net of a model file, loaded on first use; "" is the packaged one."""
        with self._net_lock:
            if model_path not in self._nets:
                path = Path(model_path) if model_path else None
                self._nets[model_path] = ProsodyNet.load(path)
            return self._nets[model_path]


def load(_context: StageContext) -> ProsodyStage:
    stage = ProsodyStage()
    stage.warm_up()
    return stage


def _speaker(prompt: dict[str, Any]) -> Speaker:
    return Speaker(prompt["speed"], prompt["british"], prompt["model_path"], prompt["shape"])
