"""From a step's output to the rows that are sent, by the sparse-audio contract."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.messages import OutputRow, Payload
from worker.sparse_audio import (
    PayloadLengthError,
    resolve_sparse_mm_routing,
    slice_payload,
)
from worker.stage_model import RowStatus, StepOutput


@dataclass(slots=True)
class RoutedStep:
    """The rows to send, and the requests that failed in the step."""

    rows: list[OutputRow] = field(default_factory=list)
    errors: dict[str, Exception] = field(default_factory=dict)
    num_routed_rows: int = 0


def route_step(output_type: str, batch: Sequence[str], output: StepOutput) -> RoutedStep:
    """Give each request of the batch its own elements, or none.

    A request without a status is a model's fault and fails. A row without payload is sent too: its
    position shows the orchestrator whether a payload was dropped on the way.
    """
    routed_ids, index, _is_sparse = resolve_sparse_mm_routing(
        engine_output_type=output_type,
        req_ids_output_copy=list(batch),
        downstream_req_ids=list(batch),
        multimodal_outputs=output.multimodal_outputs,
    )
    has_payload = {request_id for request_id in routed_ids if request_id in index}
    routed = RoutedStep()
    for request_id in batch:
        status = output.rows.get(request_id)
        if status is None or status.error is not None:
            missing = RuntimeError("the model gave no status for a row of its batch")
            routed.errors[request_id] = status.error if status and status.error else missing
            continue
        payload: Payload | None = None
        if request_id in has_payload:
            try:
                payload = slice_payload(output.multimodal_outputs, index, request_id)
            except PayloadLengthError as error:
                routed.errors[request_id] = error
                continue
            routed.num_routed_rows += 1
        routed.rows.append(_row(request_id, status, payload))
    return routed


def _row(request_id: str, status: RowStatus, payload: Payload | None) -> OutputRow:
    """The row of a request; a unit that is not audio counts as one sample."""
    size = 0
    if payload is not None:
        size = len(payload["audio"]) if "audio" in payload else 1
    return OutputRow(
        request_id,
        payload,
        start_sample=status.end_position - size,
        num_samples=size,
        units_done=status.units_done,
        done_position=status.done_position,
        checkpoint=status.checkpoint,
        finished=status.finished,
    )
