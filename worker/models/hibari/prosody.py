"""Stage 0 of hibari: text to sentences to phonemes to durations, pitch and energy per frame."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
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
from worker.models.hibari.units import make_unit
from worker.seeds import nth_seed
from worker.stage_model import RowStatus, StageContext, StepOutput

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
    def is_finished(self) -> bool:
        return not self.is_open and self.source.is_exhausted

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


class ProsodyStage:
    """One unit per request and step. Text is read lazily: a book starts as soon as a line."""

    def __init__(self) -> None:
        self._requests: dict[str, _Request] = {}
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

    @property
    def num_requests(self) -> int:
        return len(self._requests)

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
        self._requests[request.request_id] = state

    def update(self, update: StageUpdate) -> None:
        request = self._requests[update.request_id]
        payload = update.payload
        request.feed(update.unit, payload.get("text", ""), payload.get("text_offset", 0))
        if update.final:
            request.source.flush()
            request.is_open = False

    def interact(self, interaction: StageInteraction) -> None:
        """Flush: speak what is buffered. Update: another speaker for the text after it."""
        request = self._requests[interaction.request_id]
        text_end = request.text_ends[-1][1] if request.text_ends else request.resume_at
        request.note_input(interaction.unit, text_end)
        if interaction.kind == "flush":
            request.source.flush()
        else:
            request.source.update(_speaker(interaction.arguments))

    def abort(self, request_id: str) -> None:
        self._requests.pop(request_id, None)

    def has_work(self, request_id: str) -> bool:
        request = self._requests.get(request_id)
        return request is not None and not (request.is_open and request.source.is_exhausted)

    def step(self, batch: Sequence[str]) -> StepOutput:
        units: dict[str, Payload] = {}
        rows: dict[str, RowStatus] = {}
        for request_id in batch:
            request = self._requests[request_id]
            try:
                unit = self._next_unit(request)
                rows[request_id] = _status(request)
            except Exception as error:
                rows[request_id] = RowStatus(error=error)
                continue
            if unit is not None:
                units[request_id] = unit
        meta = {"req_id": list(units), "sparse_audio": ["1"]}
        return StepOutput({"meta": meta, "unit": list(units.values())}, rows)

    def fingerprint(self) -> Fingerprint:
        return make_fingerprint([Path(bundled_voice())])

    def _next_unit(self, request: _Request) -> Payload | None:
        """The next unit, or None if there is none now, or it was sent before a replay."""
        chunk = request.source.take()
        if chunk is None:
            if request.position == 0 and not request.is_resumable:
                raise InvalidRequestError("input holds nothing that can be spoken", param="input")
            request.note_progress()
            return None
        number = request.position
        request.position += 1
        request.note_progress()
        return None if number < request.skip_position else self._make_unit(request, chunk, number)

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


def _status(request: _Request) -> RowStatus:
    return RowStatus(
        finished=request.is_finished,
        end_position=max(request.position, request.skip_position),
        units_done=request.units_done,
        done_position=request.done_position,
        checkpoint={"resume_at": request.resume_at},
    )
