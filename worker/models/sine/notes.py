"""Stage 0 of the tone pipeline: one note per word."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from engine.messages import Fingerprint, StageInteraction, StageRequest, StageUpdate
from worker.fingerprint import make_fingerprint
from worker.stage_model import RowStatus, StageContext, StepOutput

# A short word gives 50 ms, a long one 400 ms.
_SAMPLES_PER_CHAR = 1200
_MAX_CHARS = 8
_NUM_PITCHES = 24


class _Word(NamedTuple):
    """A word, where it came from, and the voice's base frequency then."""

    unit: int  # the input
    number: int  # within the input
    text: str
    base_hz: float


@dataclass(slots=True)
class _Request:
    """``position`` counts notes. A replay may start at any word."""

    base_hz: float
    words: deque[_Word]
    is_open: bool
    position: int
    skip_position: int
    num_inputs: int
    first_unit: int
    num_words_done: int  # of input ``first_unit``, before a replay

    def feed(self, unit: int, text: str) -> None:
        done = self.num_words_done if unit == self.first_unit else 0
        words = [_Word(unit, i, word, self.base_hz) for i, word in enumerate(text.split())]
        self.words.extend(words[done:])
        self.num_inputs = unit + 1

    def status(self) -> RowStatus:
        head = self.words[0] if self.words else None
        return RowStatus(
            finished=head is None and not self.is_open,
            end_position=max(self.position, self.skip_position),
            units_done=head.unit if head else self.num_inputs,
            done_position=self.position,
            checkpoint={"num_words": head.number} if head else None,
        )


class NotesStage:
    """Emits one unit (``hz``, ``num_samples``) per request and step."""

    def __init__(self) -> None:
        self._requests: dict[str, _Request] = {}

    @property
    def num_requests(self) -> int:
        return len(self._requests)

    def add(self, request: StageRequest) -> None:
        prompt = request.prompt
        state = _Request(
            base_hz=prompt["base_hz"],
            words=deque(),
            is_open=request.resumable,
            position=request.start_position,
            skip_position=request.skip_position,
            num_inputs=request.first_unit,
            first_unit=request.first_unit,
            num_words_done=(request.checkpoint or {}).get("num_words", 0),
        )
        if request.first_unit == 0:
            state.feed(0, prompt["text"])
        self._requests[request.request_id] = state

    def update(self, update: StageUpdate) -> None:
        request = self._requests[update.request_id]
        request.feed(update.unit, update.payload.get("text", ""))
        request.is_open = not update.final

    def interact(self, interaction: StageInteraction) -> None:
        """A flush changes nothing here: each word is spoken at once. An update sets the pitch."""
        request = self._requests[interaction.request_id]
        if interaction.kind == "update":
            request.base_hz = interaction.arguments["base_hz"]
        request.feed(interaction.unit, "")

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
        return StepOutput(outputs, {rid: self._requests[rid].status() for rid in batch})

    def fingerprint(self) -> Fingerprint:
        return make_fingerprint([])


def load(_context: StageContext) -> NotesStage:
    return NotesStage()


def _next_note(request: _Request) -> dict[str, float] | None:
    """The next word's note; None if there is no word, or if it was sent before a replay."""
    if not request.words:
        return None
    word = request.words.popleft()
    request.position += 1
    if request.position <= request.skip_position:
        return None
    pitch = zlib.crc32(word.text.encode()) % _NUM_PITCHES
    num_samples = _SAMPLES_PER_CHAR * min(len(word.text), _MAX_CHARS)
    return {"hz": word.base_hz * 2 ** (pitch / 12), "num_samples": num_samples}
