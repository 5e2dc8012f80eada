"""The stage that finds speech: in recordings, window by window, and in live audio.

A request's prompt says which (``mode``). Its audio comes in updates: ``audio`` float32 [samples] at
16 kHz mono, and ``first_sample``, the place of that audio in the stream. Each unit of output holds
``heard``, of which the recogniser takes ``speech`` and ``recognition``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.messages import Fingerprint, Payload, StageInteraction, StageRequest, StageUpdate
from worker.fingerprint import make_fingerprint
from worker.models.silero_vad.ears import Ear, open_ear
from worker.models.silero_vad.probabilities import SpeechNet, model_path
from worker.stage_model import RowStatus, StageContext, StepOutput


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


class VadStage:
    """One unit per request and step."""

    def __init__(self, net: SpeechNet) -> None:
        self._net = net
        self._requests: dict[str, _Request] = {}

    @property
    def num_requests(self) -> int:
        return len(self._requests)

    def add(self, request: StageRequest) -> None:
        self._requests[request.request_id] = _Request(
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
        request = self._requests[update.request_id]
        request.is_open = not update.final
        if update.unit >= request.first_unit:
            request.ear.put(update)

    def interact(self, interaction: StageInteraction) -> None:
        """Flush: a turn ends here. Update: other settings from here on."""
        self._requests[interaction.request_id].ear.put(interaction)

    def abort(self, request_id: str) -> None:
        self._requests.pop(request_id, None)

    def has_work(self, request_id: str) -> bool:
        request = self._requests.get(request_id)
        return request is not None and request.has_work

    def step(self, batch: Sequence[str]) -> StepOutput:
        units: dict[str, Payload] = {}
        rows: dict[str, RowStatus] = {}
        for request_id in batch:
            request = self._requests[request_id]
            try:
                unit = request.advance()
            except Exception as error:
                rows[request_id] = RowStatus(error=error)
                continue
            rows[request_id] = request.status()
            if unit is not None:
                units[request_id] = unit
        meta = {"req_id": list(units), "sparse_audio": ["1"]}
        return StepOutput({"meta": meta, "heard": list(units.values())}, rows)

    def fingerprint(self) -> Fingerprint:
        return make_fingerprint([model_path()])


def load(_context: StageContext) -> VadStage:
    """The stage. Raises ``ConfigError`` if the network is not installed."""
    return VadStage(SpeechNet(model_path()))
