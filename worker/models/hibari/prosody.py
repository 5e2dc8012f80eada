"""Stage 0 of hibari: text to sentences to phonemes to durations, pitch and energy per frame."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.errors import InvalidRequestError
from engine.messages import Fingerprint, Payload, StageInteraction, StageRequest, StageUpdate
from worker.fingerprint import make_fingerprint
from worker.models.hibari.prosody_net import ProsodyNet, bundled_voice
from worker.models.hibari.text.clean import clean_text
from worker.models.hibari.text.phonemes import PhonemeChunk, Phonemizer
from worker.models.hibari.text.sentences import Sentence, SentenceSplitter, split_sentences
from worker.models.hibari.units import make_unit, unit_seed
from worker.stage_model import RowStatus, StageContext, StepOutput

logger = logging.getLogger("voxloom.worker.models.hibari.prosody")


@dataclass(slots=True)
class _Request:
    """A request's text, on its way through the front end one phoneme chunk per step."""

    speed: float
    british: bool
    model_path: str
    shape: dict[str, float]
    seed: int
    num_to_skip: int
    sentences: Iterator[Sentence]
    is_open: bool
    is_resumable: bool
    splitter: SentenceSplitter = field(default_factory=SentenceSplitter)
    arrived: list[Sentence] = field(default_factory=list)
    chunks: Iterator[PhonemeChunk] = field(default_factory=lambda: iter(()))
    next_chunk: PhonemeChunk | None = None
    next_sentence: Sentence | None = None
    num_units: int = 0
    is_exhausted: bool = False


class ProsodyStage:
    """One unit per request and step. The text of a closed request is read lazily."""

    def __init__(self) -> None:
        self._requests: dict[str, _Request] = {}
        self._phonemizers = {british: Phonemizer(british) for british in (False, True)}
        self._nets: dict[str, ProsodyNet] = {}
        self._net_lock = threading.Lock()

    def warm_up(self) -> None:
        """Load what the default voice needs and run it once."""
        phonemizer = self._phonemizers[False]
        phonemizer.warm_up()
        sentence = next(split_sentences("Good morning, everyone."))
        for chunk in phonemizer.chunks(sentence):
            self._net("").run(chunk.ids, 1.0)

    @property
    def num_requests(self) -> int:
        return len(self._requests)

    def add(self, request: StageRequest) -> None:
        prompt = request.prompt
        state = _Request(
            speed=prompt["speed"],
            british=prompt["british"],
            model_path=prompt["model_path"],
            shape=prompt["shape"],
            seed=request.seed,
            num_to_skip=request.skip_units,
            sentences=iter(()),
            is_open=request.resumable,
            is_resumable=request.resumable,
        )
        if request.resumable:
            state.arrived += state.splitter.feed(prompt["text"])
        else:
            state.sentences = split_sentences(prompt["text"])
        self._requests[request.request_id] = state

    def update(self, update: StageUpdate) -> None:
        request = self._requests[update.request_id]
        request.arrived += request.splitter.feed(update.payload.get("text", ""))
        if update.final:
            request.arrived += request.splitter.flush()
            request.is_open = False
        request.is_exhausted = False

    def interact(self, interaction: StageInteraction) -> dict[str, Any]:
        raise ValueError(f"the stage has no interaction {interaction.kind!r}")

    def abort(self, request_id: str) -> None:
        self._requests.pop(request_id, None)

    def has_work(self, request_id: str) -> bool:
        request = self._requests.get(request_id)
        return request is not None and not request.is_exhausted

    def step(self, batch: Sequence[str]) -> StepOutput:
        units: dict[str, Payload] = {}
        rows: dict[str, RowStatus] = {}
        for request_id in batch:
            request = self._requests[request_id]
            try:
                unit = self._next_unit(request)
                rows[request_id] = self._status(request)
            except Exception as error:
                rows[request_id] = RowStatus(has_work=False, error=error)
                continue
            if unit is not None:
                units[request_id] = unit
        meta = {"req_id": list(units), "sparse_audio": ["1"]}
        outputs = {"meta": meta, "unit": [unit["unit"] for unit in units.values()]}
        return StepOutput(outputs, rows)

    def fingerprint(self) -> Fingerprint:
        return make_fingerprint([Path(bundled_voice())])

    def _next_unit(self, request: _Request) -> Payload | None:
        """The next unit, or None if there is none now, or it was sent before a replay."""
        chunk = request.next_chunk or self._read_chunk(request)
        if chunk is None:
            request.is_exhausted = True
            if request.num_units == 0 and not request.is_resumable:
                raise InvalidRequestError("input holds nothing that can be spoken", param="input")
            return None
        request.next_chunk = None
        number = request.num_units
        request.num_units += 1
        self._look_ahead(request)
        if number < request.num_to_skip:
            return None
        frames = self._net(request.model_path).run(chunk.ids, request.speed)
        return make_unit(
            chunk,
            frames,
            seed=unit_seed(request.seed, number),
            shape=request.shape,
            model_path=request.model_path,
        )

    def _look_ahead(self, request: _Request) -> None:
        """Find out whether more follows, without reading it: the last unit should say it is.

        A request then ends with its audio rather than one round later.
        """
        request.next_chunk = next(request.chunks, None)
        if request.next_chunk is None:
            request.next_sentence = self._read_sentence(request)
            request.is_exhausted = request.next_sentence is None

    def _read_chunk(self, request: _Request) -> PhonemeChunk | None:
        while True:
            chunk = next(request.chunks, None)
            if chunk is not None:
                return chunk
            sentence = request.next_sentence or self._read_sentence(request)
            request.next_sentence = None
            if sentence is None:
                return None
            request.chunks = self._phonemizers[request.british].chunks(sentence, logger.warning)

    @staticmethod
    def _read_sentence(request: _Request) -> Sentence | None:
        """The next sentence; text that came in pieces is cleaned sentence by sentence."""
        sentence = next(request.sentences, None)
        while sentence is None and request.arrived:
            cleaned = clean_text(request.arrived.pop(0).text)
            request.sentences = split_sentences(cleaned.text)
            sentence = next(request.sentences, None)
        return sentence

    @staticmethod
    def _status(request: _Request) -> RowStatus:
        done = request.is_exhausted and not request.is_open
        return RowStatus(has_work=not request.is_exhausted, finished=done)

    def _net(self, model_path: str) -> ProsodyNet:
        """The net of a model file, loaded on first use; "" and "." are the packaged one."""
        with self._net_lock:
            if model_path not in self._nets:
                path = None if model_path in ("", ".") else Path(model_path)
                self._nets[model_path] = ProsodyNet.load(path)
            return self._nets[model_path]


def load(_context: StageContext) -> ProsodyStage:
    stage = ProsodyStage()
    stage.warm_up()
    return stage
