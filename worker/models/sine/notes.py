"""Stage 0 of the tone pipeline: one note per word."""

from __future__ import annotations

import zlib
from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

from engine.messages import Fingerprint, StageInteraction, StageRequest, StageUpdate
from worker.fingerprint import make_fingerprint
from worker.rows import UnitStage
from worker.stage_model import RowStatus, StageContext

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

    @property
    def has_work(self) -> bool:
        return bool(self.words) or not self.is_open

    def status(self) -> RowStatus:
        head = self.words[0] if self.words else None
        return RowStatus(
            finished=head is None and not self.is_open,
            end_position=max(self.position, self.skip_position),
            units_done=head.unit if head else self.num_inputs,
            done_position=self.position,
            checkpoint={"num_words": head.number} if head else None,
        )


class NotesStage(UnitStage[_Request]):
    """Emits one unit (``hz``, ``num_samples``) per request and step."""

    output_name = "note"

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
        self._rows[request.request_id] = state

    def update(self, update: StageUpdate) -> None:
        request = self._rows[update.request_id]
        request.feed(update.unit, update.payload.get("text", ""))
        request.is_open = not update.final

    def interact(self, interaction: StageInteraction) -> None:
        """A flush changes nothing here: each word is spoken at once. An update sets the pitch."""
        request = self._rows[interaction.request_id]
        if interaction.kind == "update":
            request.base_hz = interaction.arguments["base_hz"]
        request.feed(interaction.unit, "")

    def next_unit(self, row: _Request) -> dict[str, float] | None:
        if not row.words:
            return None
        word = row.words.popleft()
        row.position += 1
        if row.position <= row.skip_position:
            return None
        pitch = zlib.crc32(word.text.encode()) % _NUM_PITCHES
        num_samples = _SAMPLES_PER_CHAR * min(len(word.text), _MAX_CHARS)
        return {"hz": word.base_hz * 2 ** (pitch / 12), "num_samples": num_samples}

    def fingerprint(self) -> Fingerprint:
        return make_fingerprint([])


def load(_context: StageContext) -> NotesStage:
    return NotesStage()
