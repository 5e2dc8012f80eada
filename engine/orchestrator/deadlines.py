"""Deadlines of requests and of their CFG groups."""

from __future__ import annotations

from engine.orchestrator.records import RequestRecord, StageState


def overdue(record: RequestRecord, now: float, group_deadline_s: float) -> str | None:
    """Why the request has run out of time, if it has.

    A group has ``group_deadline_s`` from the end of its first member to that of its last. Time in
    which the client keeps the parent waiting, by a pause or by not reading, does not count.
    """
    deadline = record.submission.deadline
    if deadline is not None and now >= deadline:
        return "the request ran out of time"
    group, first_stage = record.group, record.stages[0]
    if group is None or group.first_finished_at is None:
        return None
    if record.is_paused or first_stage.is_out_of_credit:
        group.first_finished_at = now
    is_late = now - group.first_finished_at >= group_deadline_s
    if is_late and first_stage.state is not StageState.FINISHED:
        return f"its CFG group was not complete within {group_deadline_s:g} s"
    return None
