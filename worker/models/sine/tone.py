"""Stage 1 of the tone pipeline: notes to audio, a chunk per request and step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from engine.messages import Fingerprint, StageRequest, StageUpdate
from worker.fingerprint import make_fingerprint
from worker.rows import AudioRow, RowStage, declare_sparse, replay_start
from worker.stage_model import StageContext, StepOutput

_CHUNK_SAMPLES = 1920  # 80 ms at 24 kHz
_PEAK = 8000


class ToneStage(RowStage[AudioRow]):
    """Each sample is a function of its note and its place in it: a replay gives the same bytes."""

    def __init__(self, sample_rate: int) -> None:
        super().__init__()
        self._sample_rate = sample_rate

    def add(self, request: StageRequest) -> None:
        self._rows[request.request_id] = AudioRow(**replay_start(request))

    def update(self, update: StageUpdate) -> None:
        row = self._rows[update.request_id]
        if "note" in update.payload:
            row.units.append(update.payload["note"])
        row.is_open = not update.final

    def step(self, batch: Sequence[str]) -> StepOutput:
        audio = {rid: self._chunk(self._rows[rid]) for rid in batch}
        routed = {rid: chunk for rid, chunk in audio.items() if len(chunk)}
        outputs = declare_sparse(list(routed)) | {"audio": list(routed.values())}
        return StepOutput(outputs, {rid: self._rows[rid].status() for rid in batch})

    def fingerprint(self) -> Fingerprint:
        return make_fingerprint([])

    def _chunk(self, row: AudioRow) -> npt.NDArray[np.int16]:
        """The next samples, less those that were delivered before a replay; int16 [n]."""
        if not row.units:
            return np.zeros(0, np.int16)
        note = row.units[0]
        stop = min(row.num_emitted + _CHUNK_SAMPLES, int(note["num_samples"]))
        times = np.arange(row.num_emitted, stop) / self._sample_rate
        samples = (_PEAK * np.sin(2 * np.pi * note["hz"] * times)).astype(np.int16)
        to_send = row.emit(samples)
        if stop == int(note["num_samples"]):
            row.close_unit()
        return to_send


def load(context: StageContext) -> ToneStage:
    return ToneStage(context.pipeline.sample_rate)
