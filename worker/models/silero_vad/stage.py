"""The stage that finds speech: in recordings, window by window, and in live audio.

A request's prompt says which (``mode``). Its audio comes in updates: ``audio`` float32 [samples] at
16 kHz mono, and ``first_sample``, the place of that audio in the stream. Each unit of output holds
``heard``, of which the recogniser takes ``speech`` and ``recognition``.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from engine.messages import Fingerprint, Payload, StageInteraction, StageRequest, StageUpdate
from worker.fingerprint import make_fingerprint
from worker.models.silero_vad.ears import Ear, open_ear
from worker.models.silero_vad.probabilities import SpeechNet, model_path
from worker.rows import UnitStage
from worker.stage_model import RowStatus, StageContext


@dataclass(slots=True)
class _Request:
    """``found`` are units that wait for their step; ``position`` counts those that have left."""

    ear: Ear
    first_unit: int
    is_open: bool
    position: int
    skip_position: int
    units_done: int
    done_position: int
    found: deque[Payload] = field(default_factory=deque)

    @property
    def has_work(self) -> bool:
        return bool(self.found) or self.ear.has_input or not self.is_open

    def advance(self) -> Payload | None:
        """The next unit, or None if there is none yet, or it had left before a replay."""
        if not self.found and self.ear.has_input:
            self.found.extend(self.ear.listen())
        unit = self.found.popleft() if self.found else None
        self.position += unit is not None
        if not self.found and self.ear.units_done > self.units_done:
            self.units_done, self.done_position = self.ear.units_done, self.position
        return unit if self.position > self.skip_position else None

    def status(self) -> RowStatus:
        return RowStatus(
            finished=not (self.is_open or self.found or self.ear.has_input),
            end_position=max(self.position, self.skip_position),
            units_done=self.units_done,
            done_position=self.done_position,
        )


class VadStage(UnitStage[_Request]):
    """What was heard, a unit at a time."""

    output_name = "heard"

    def __init__(self, net: SpeechNet) -> None:
        super().__init__()
        self._net = net

    def add(self, request: StageRequest) -> None:
        self._rows[request.request_id] = _Request(
            ear=open_ear(self._net, request.prompt, request.first_unit),
            first_unit=request.first_unit,
            is_open=request.resumable,
            position=request.start_position,
            skip_position=request.skip_position,
            units_done=request.first_unit,
            done_position=request.start_position,
        )

    def update(self, update: StageUpdate) -> None:
        """More audio. A replay sends the final update even if that is done with."""
        request = self._rows[update.request_id]
        request.is_open = not update.final
        if update.unit >= request.first_unit:
            request.ear.put(update)

    def interact(self, interaction: StageInteraction) -> None:
        """Flush: a turn ends here. Update: other settings from here on."""
        self._rows[interaction.request_id].ear.put(interaction)

    def next_unit(self, row: _Request) -> Payload | None:
        return row.advance()

    def fingerprint(self) -> Fingerprint:
        return make_fingerprint([model_path()])


def load(_context: StageContext) -> VadStage:
    """The stage. Raises ``ConfigError`` if the network is not installed."""
    return VadStage(SpeechNet(model_path()))
