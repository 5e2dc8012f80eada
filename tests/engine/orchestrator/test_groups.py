"""Which of a parent's rows may be passed on."""

from __future__ import annotations

import itertools

import pytest

from engine.messages import CompanionSpec, OutputRow, SamplingParams
from engine.orchestrator.groups import BrokenGroupError, Group


def group(num_companions: int = 2, *, forwards: bool = False) -> Group:
    specs = [
        CompanionSpec(f"p/{i}", f"role{i}", {}, [SamplingParams()]) for i in range(num_companions)
    ]
    return Group(specs, forwards_payloads=forwards)


def row(request_id: str, *, finished: bool = False, payload: bool = True) -> OutputRow:
    content = {"from": request_id} if payload else None
    return OutputRow(request_id, content, 0, int(payload), finished=finished)


@pytest.mark.parametrize("order", list(itertools.permutations(["p", "p/0", "p/1"])))
def test_the_end_waits_for_all_members_in_any_order(order: tuple[str, ...]) -> None:
    members = group()
    for number, request_id in enumerate(order):
        if request_id == "p":
            members.take_parent(row("p", finished=True), float(number))
        else:
            companion = members.companions[request_id]
            members.take_companion(companion, row(request_id, finished=True), float(number))
        assert bool(members.ready_rows()) == (number == 2)
    assert members.first_finished_at == 0.0


def test_units_pass_at_once_where_companions_outputs_stay() -> None:
    members = group()
    members.take_parent(row("p"), 0.0)
    assert len(members.ready_rows()) == 1


def test_units_wait_for_the_same_unit_of_every_companion_where_they_travel_along() -> None:
    members = group(forwards=True)
    members.take_parent(row("p"), 0.0)
    members.take_companion(members.companions["p/0"], row("p/0"), 0.0)
    assert members.ready_rows() == []
    members.take_companion(members.companions["p/1"], row("p/1"), 0.0)
    (ready,) = members.ready_rows()
    assert ready.payload == {
        "from": "p",
        "companions": {"role0": {"from": "p/0"}, "role1": {"from": "p/1"}},
    }


def test_a_companion_that_ends_without_its_unit_breaks_the_group() -> None:
    members = group(1, forwards=True)
    members.take_companion(members.companions["p/0"], row("p/0", finished=True, payload=False), 0.0)
    members.take_parent(row("p"), 0.0)
    with pytest.raises(BrokenGroupError, match="role0"):
        members.ready_rows()


def test_a_restart_forgets_who_had_finished() -> None:
    members = group(1)
    members.take_companion(members.companions["p/0"], row("p/0", finished=True), 3.0)
    members.restart()
    members.take_parent(row("p", finished=True), 4.0)
    assert members.ready_rows() == []
    assert members.first_finished_at == 4.0
