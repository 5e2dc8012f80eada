"""A stage behind the thinker that takes in all that it is told, and says nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.messages import Fingerprint, StageRequest, StageUpdate
from worker.fingerprint import make_fingerprint
from worker.rows import RowStage, declare_sparse
from worker.stage_model import RowStatus, StageContext, StepOutput


@dataclass(slots=True)
class _Listener:
    num_inputs: int = 0
    has_work: bool = False


class ListeningStage(RowStage[_Listener]):
    """It ends with its last input."""

    def add(self, request: StageRequest) -> None:
        self._rows[request.request_id] = _Listener()

    def update(self, update: StageUpdate) -> None:
        row = self._rows[update.request_id]
        row.num_inputs += 1
        row.has_work = update.final

    def step(self, batch: Sequence[str]) -> StepOutput:
        done = {
            request_id: RowStatus(finished=True, units_done=self._rows[request_id].num_inputs)
            for request_id in batch
        }
        return StepOutput(declare_sparse([]), done)

    def fingerprint(self) -> Fingerprint:
        return make_fingerprint([])


def load(_context: StageContext) -> ListeningStage:
    return ListeningStage()
