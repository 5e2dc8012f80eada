"""Stage 1 of the tone pipeline: notes to audio, a chunk per request and step."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from engine.messages import Fingerprint, StageInteraction, StageRequest, StageUpdate
from worker.fingerprint import make_fingerprint
from worker.stage_model import RowStatus, StageContext, StepOutput

_CHUNK_SAMPLES = 1920  # 80 ms at 24 kHz
_PEAK = 8000


@dataclass(slots=True)
class _Request:
    units_done: int
    done_position: int
    skip_position: int
    notes: deque[dict[str, float]] = field(default_factory=deque)
    offset: int = 0  # within the first note
    is_open: bool = True

    @property
    def position(self) -> int:
        return self.done_position + self.offset


class ToneStage:
    """Each sample is a function of its note and its place in it: a replay gives the same bytes."""

    def __init__(self, sample_rate: int) -> None:
        self._sample_rate = sample_rate
        self._requests: dict[str, _Request] = {}

    @property
    def num_requests(self) -> int:
        return len(self._requests)

    def add(self, request: StageRequest) -> None:
        self._requests[request.request_id] = _Request(
            request.first_unit, request.start_position, request.skip_position
        )

    def update(self, update: StageUpdate) -> None:
        request = self._requests[update.request_id]
        if "note" in update.payload:
            request.notes.append(update.payload["note"])
        request.is_open = not update.final

    def interact(self, interaction: StageInteraction) -> None:
        raise ValueError(f"interactions are for the first stage, not this one: {interaction.kind}")

    def abort(self, request_id: str) -> None:
        self._requests.pop(request_id, None)

    def has_work(self, request_id: str) -> bool:
        request = self._requests.get(request_id)
        return request is not None and (bool(request.notes) or not request.is_open)

    def step(self, batch: Sequence[str]) -> StepOutput:
        audio = {rid: self._chunk(self._requests[rid]) for rid in batch}
        routed = {rid: chunk for rid, chunk in audio.items() if len(chunk)}
        meta = {"req_id": list(routed), "sparse_audio": ["1"]}
        outputs = {"meta": meta, "audio": list(routed.values())}
        return StepOutput(outputs, {rid: _status(self._requests[rid]) for rid in batch})

    def fingerprint(self) -> Fingerprint:
        return make_fingerprint([])

    def _chunk(self, request: _Request) -> npt.NDArray[np.int16]:
        """The next samples, less those that were delivered before a replay; int16 [n]."""
        if not request.notes:
            return np.zeros(0, np.int16)
        note = request.notes[0]
        start, total = request.offset, int(note["num_samples"])
        stop = min(start + _CHUNK_SAMPLES, total)
        skipped = min(max(request.skip_position - request.position, 0), stop - start)
        times = np.arange(start + skipped, stop) / self._sample_rate
        samples = (_PEAK * np.sin(2 * np.pi * note["hz"] * times)).astype(np.int16)
        request.offset = stop
        if stop == total:
            request.notes.popleft()
            request.units_done += 1
            request.done_position += total
            request.offset = 0
        return samples


def load(context: StageContext) -> ToneStage:
    return ToneStage(context.pipeline.sample_rate)


def _status(request: _Request) -> RowStatus:
    return RowStatus(
        finished=not request.notes and not request.is_open,
        end_position=max(request.position, request.skip_position),
        units_done=request.units_done,
        done_position=request.done_position,
    )
