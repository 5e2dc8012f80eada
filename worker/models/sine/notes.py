"""Stage 0 of the tone pipeline: one note per word."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engine.messages import Fingerprint, StageInteraction, StageRequest, StageUpdate
from worker.fingerprint import make_fingerprint
from worker.stage_model import RowStatus, StageContext, StepOutput

# A short word gives 50 ms, a long one 400 ms.
_SAMPLES_PER_CHAR = 1200
_MAX_CHARS = 8
_NUM_PITCHES = 24


@dataclass(slots=True)
class _Request:
    base_hz: float
    words: deque[str]
    is_open: bool
    num_to_skip: int
    num_done: int = 0


class NotesStage:
    """Emits one unit (``hz``, ``num_samples``) per request and step."""

    def __init__(self) -> None:
        self._requests: dict[str, _Request] = {}

    @property
    def num_requests(self) -> int:
        return len(self._requests)

    def add(self, request: StageRequest) -> None:
        prompt = request.prompt
        words = deque(prompt["text"].split())
        self._requests[request.request_id] = _Request(
            prompt["base_hz"], words, request.resumable, request.skip_units
        )

    def update(self, update: StageUpdate) -> None:
        request = self._requests[update.request_id]
        request.words.extend(update.payload.get("text", "").split())
        request.is_open = not update.final

    def interact(self, interaction: StageInteraction) -> dict[str, Any]:
        raise ValueError(f"the tone pipeline has no interaction {interaction.kind!r}")

    def abort(self, request_id: str) -> None:
        self._requests.pop(request_id, None)

    def has_work(self, request_id: str) -> bool:
        request = self._requests.get(request_id)
        return request is not None and (bool(request.words) or not request.is_open)

    def step(self, batch: Sequence[str]) -> StepOutput:
        notes = {rid: _next_note(self._requests[rid]) for rid in batch}
        routed = {rid: note for rid, note in notes.items() if note is not None}
        meta = {"req_id": list(routed), "sparse_audio": ["1"]}
        outputs = {"meta": meta, "note": list(routed.values())}
        return StepOutput(outputs, {rid: _status(self._requests[rid]) for rid in batch})

    def fingerprint(self) -> Fingerprint:
        return make_fingerprint([])


def load(_context: StageContext) -> NotesStage:
    return NotesStage()


def _next_note(request: _Request) -> dict[str, float] | None:
    """The next word's note; None if there is no word, or if it was sent before a replay."""
    if not request.words:
        return None
    word = request.words.popleft()
    request.num_done += 1
    if request.num_done <= request.num_to_skip:
        return None
    pitch = zlib.crc32(word.encode()) % _NUM_PITCHES
    num_samples = _SAMPLES_PER_CHAR * min(len(word), _MAX_CHARS)
    return {"hz": request.base_hz * 2 ** (pitch / 12), "num_samples": num_samples}


def _status(request: _Request) -> RowStatus:
    return RowStatus(
        has_work=bool(request.words), finished=not request.words and not request.is_open
    )
