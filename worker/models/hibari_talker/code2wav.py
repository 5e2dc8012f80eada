"""Stage 1 of hibari-talker: hibari's code2wav, fed with tokens while the talker writes them.

An input is a piece of a sentence (see ``pieces.py``)::

    unit    of the first piece: ids int64 [L] phonemes with both pads; speed; words, seed, begins,
            sentence, shape, model_path and warnings as in ``hibari.units.make_unit``
    tokens  int64 [n] the prosody tokens of the next phonemes

or, at the end of a text, a silent unit as in ``hibari.units.make_silent_unit``.

A sentence takes its step as soon as the frames of that step are settled. Where steps begin and end
depends on the position in the request alone, as in hibari.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np

from engine.messages import Payload
from worker.models.hibari.code2wav import (
    Code2WavStage,
    Listening,
    Word,
    num_skipped_frames,
    place_words,
    step_frames,
)
from worker.models.hibari.contour_net import ContourNet
from worker.models.hibari.decoder import HALF_KERNEL
from worker.models.hibari.graphs import read_voice
from worker.models.hibari.prosody_net import bundled_voice
from worker.models.hibari.sentence_stream import SentenceStream
from worker.models.hibari.shape import VoiceShape
from worker.models.hibari.units import is_silent
from worker.models.hibari_talker.prosody import ProsodyStream, Rhythm
from worker.stage_model import StageContext

MEAN_HZ = 194.0
"""Where ``pitch_range`` counts from: the mean of log f0 of the voice that the talker learned from,
over 16,000 sentences."""


class TalkerCode2WavStage(Code2WavStage):
    """hibari's stage, but that a sentence grows, and its words are sent where they begin."""

    def __init__(self) -> None:
        super().__init__()
        self._nets: dict[str, ContourNet] = {}
        self._net_lock = threading.Lock()

    def warm_up(self) -> None:
        super().warm_up()
        net = self._net("")
        text = net.read(np.array([0, 43, 43, 0]), 1.0)
        net.run(text.features, np.full(4, 30, np.int32))

    def take_payload(self, request: Listening, payload: Payload) -> None:
        if "unit" in payload:
            unit = payload["unit"]
            request.units.append(unit)
            if is_silent(unit):
                return
            unit["num_inputs"] = 0
            unit["rhythm"] = Rhythm(unit["ids"].size, unit["speed"])
            unit["durations"] = unit["rhythm"].durations
        if "tokens" in payload:
            unit = request.units[-1]
            unit["num_inputs"] += 1
            unit["rhythm"].push(payload["tokens"].tolist())

    def can_advance(self, request: Listening) -> bool:
        if not request.units:
            return not request.is_open
        if is_silent(request.units[0]):
            return True
        rhythm: Rhythm = request.units[0]["rhythm"]
        if rhythm.is_whole or not rhythm.durations:
            return rhythm.is_whole
        num_needed = request.num_pushed + step_frames(request) + HALF_KERNEL
        return rhythm.num_settled_frames >= num_needed

    def open_sentence(self, request: Listening) -> SentenceStream:
        unit = request.units[0]
        if request.done_position >= request.skip_position:  # else they were sent before a replay
            request.warnings += unit["warnings"]
        nets = self._net(""), self._net(unit["model_path"])
        unit["prosody"] = ProsodyStream(unit["rhythm"], *nets, unit["ids"])
        shape = VoiceShape(**unit["shape"])
        stream = self.model(unit["model_path"]).begin(
            unit["ids"], seed=unit["seed"], shape=shape, mean_hz=MEAN_HZ
        )
        self.extend_sentence(request, stream)
        return stream

    def extend_sentence(self, request: Listening, stream: SentenceStream) -> None:
        unit = request.units[0]
        prosody: ProsodyStream = unit["prosody"]
        while (piece := prosody.take()) is not None:
            skipped = 0 if stream.num_frames else num_skipped_frames(unit)
            stream.extend(piece.durations, piece.f0, piece.energy, skip_frames=skipped)

    def words_of(
        self, request: Listening, unit: dict[str, Any], sentence_start: int, chunk: range
    ) -> list[Word]:
        """The words that end in the chunk: their durations are known then, and at no replay are
        they others."""
        if is_silent(unit):
            return []
        num_known = len(unit["durations"])
        known = [word for word in unit["words"] if word[1] <= num_known]
        first = max(chunk.start, request.skip_position)
        words = place_words(unit | {"words": known}, sentence_start)
        return [word for word in words if first < word[1] <= chunk.stop]

    def _net(self, model_path: str) -> ContourNet:
        """The net of a model file, loaded on first use; "" is the packaged one."""
        with self._net_lock:
            if model_path not in self._nets:
                path = Path(model_path) if model_path else bundled_voice()
                self._nets[model_path] = ContourNet(read_voice(path))
            return self._nets[model_path]


def load(_context: StageContext) -> TalkerCode2WavStage:
    stage = TalkerCode2WavStage()
    stage.warm_up()
    return stage
