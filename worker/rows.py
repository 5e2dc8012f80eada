"""What stage models that keep a row for each request share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Protocol, TypedDict, TypeVar

import numpy as np
import numpy.typing as npt

from engine.messages import Payload, StageInteraction, StageRequest
from worker.stage_model import RowStatus, StepOutput

Sample = TypeVar("Sample", bound=np.generic)


class Row(Protocol):
    """A request in a stage."""

    @property
    def has_work(self) -> bool:
        """Whether a step would do something for it now."""
        ...


class UnitRow(Row, Protocol):
    """A request whose output is units."""

    def status(self) -> RowStatus:
        """Where it is now, after a step."""
        ...


AnyRow = TypeVar("AnyRow", bound=Row)
AnyUnitRow = TypeVar("AnyUnitRow", bound=UnitRow)


class RowStage(Generic[AnyRow]):
    """Keeps the rows; what they are and what a step does to them is the subclass's business."""

    def __init__(self) -> None:
        self._rows: dict[str, AnyRow] = {}

    @property
    def num_requests(self) -> int:
        return len(self._rows)

    def interact(self, interaction: StageInteraction) -> None:
        """For a first stage to override."""
        raise ValueError(f"interactions are for the first stage, not this one: {interaction.kind}")

    def abort(self, request_id: str) -> None:
        self._rows.pop(request_id, None)

    def abandon(self, request_id: str) -> None:
        """For a stage whose steps take long to override."""

    def has_work(self, request_id: str) -> bool:
        row = self._rows.get(request_id)
        return row is not None and row.has_work


class UnitStage(RowStage[AnyUnitRow], ABC):
    """At most one unit for each request and step; a row that fails fails alone."""

    output_name: ClassVar[str]
    """What the list of units is called in the step's outputs."""

    @abstractmethod
    def next_unit(self, row: AnyUnitRow) -> Payload | None:
        """The row's next unit, or None if there is none now, or if it was sent before a replay."""

    def step(self, batch: Sequence[str]) -> StepOutput:
        units: dict[str, Payload] = {}
        rows: dict[str, RowStatus] = {}
        for request_id in batch:
            row = self._rows[request_id]
            try:
                unit = self.next_unit(row)
                rows[request_id] = row.status()
            except Exception as error:
                rows[request_id] = RowStatus(error=error)
                continue
            if unit is not None:
                units[request_id] = unit
        return StepOutput(
            declare_sparse(list(units)) | {self.output_name: list(units.values())}, rows
        )


@dataclass(slots=True, kw_only=True)
class AudioRow:
    """A request whose units become samples, which is what its positions count.

    ``units`` are inputs that are not yet done with, the open one first; ``num_emitted`` of its
    samples were made. A replay starts at ``units_done`` and makes nothing before ``skip_position``
    again.
    """

    units_done: int
    done_position: int
    skip_position: int
    units: deque[Any] = field(default_factory=deque)
    num_emitted: int = 0
    is_open: bool = True

    @property
    def position(self) -> int:
        return self.done_position + self.num_emitted

    @property
    def has_work(self) -> bool:
        return bool(self.units) or not self.is_open

    def emit(self, samples: npt.NDArray[Sample]) -> npt.NDArray[Sample]:
        """Count the open unit's next samples, [n]; those of them to send, [m]."""
        num_skipped = min(max(self.skip_position - self.position, 0), len(samples))
        self.num_emitted += len(samples)
        return samples[num_skipped:]

    def close_unit(self, num_inputs: int = 1) -> None:
        """The open unit has no more samples; it came in so many inputs."""
        self.units.popleft()
        self.units_done += num_inputs
        self.done_position += self.num_emitted
        self.num_emitted = 0

    def status(self) -> RowStatus:
        return RowStatus(
            finished=not self.units and not self.is_open,
            end_position=max(self.position, self.skip_position),
            units_done=self.units_done,
            done_position=self.done_position,
        )


class ReplayStart(TypedDict):
    """The fields of an ``AudioRow`` that a request brings."""

    units_done: int
    done_position: int
    skip_position: int


def declare_sparse(request_ids: Sequence[str]) -> dict[str, Any]:
    """The declaration that a step's lists cover these requests of its batch, in this order."""
    return {"meta": {"req_id": list(request_ids), "sparse_audio": ["1"]}}


def replay_start(request: StageRequest) -> ReplayStart:
    """Where a row of audio starts, the first time or at a replay."""
    return {
        "units_done": request.first_unit,
        "done_position": request.start_position,
        "skip_position": request.skip_position,
    }
