"""The caller's side of requests: each ends once, and gives back what it held."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.admission import AdmissionController
from engine.errors import DuplicateRequestError, UnavailableError, UnknownRequestError
from engine.output_queue import OutputQueue
from engine.request_table import OpenRequest, RequestTable


def request(controller: AdmissionController, **options: object) -> OpenRequest:
    queue = OutputQueue(1000, {}, lambda _stage, _num_taken: None)
    return OpenRequest(queue, controller.take(), {}, is_open=False, **options)  # type: ignore[arg-type]


@pytest.fixture
def controller() -> AdmissionController:
    return AdmissionController(10, 0)


def test_an_end_gives_back_ticket_and_artifacts_once(
    controller: AdmissionController, tmp_path: Path
) -> None:
    folder = tmp_path / "artifact"
    folder.mkdir()
    table, opened = RequestTable(), request(controller, artifact_dirs=(folder,))
    table.add("a", opened)
    table.end(opened)
    table.end(opened)
    assert controller.num_taken == 0
    assert table.num_live == 0
    assert not folder.exists()


def test_companions_ids_are_reserved_while_their_parent_lives(
    controller: AdmissionController,
) -> None:
    table, parent = RequestTable(), request(controller, companion_ids=("a/x",))
    table.add("a", parent)
    for taken in ("a", "a/x"):
        with pytest.raises(DuplicateRequestError):
            table.add(taken, request(controller))
    table.end(parent)
    table.add("a/x", request(controller))


def test_a_request_is_found_until_its_end_has_been_read(controller: AdmissionController) -> None:
    table, opened = RequestTable(), request(controller)
    table.add("a", opened)
    table.forget("a")
    assert table.find_live("a") is opened
    table.end(opened)
    with pytest.raises(UnknownRequestError):
        table.find_live("a")
    assert table.find("a") is opened
    table.forget("a")
    assert table.find("a") is None


def test_dropping_ends_that_request_and_no_other_and_keeps_its_id_until_it_is_forgotten(
    controller: AdmissionController,
) -> None:
    table, opened, other = RequestTable(), request(controller), request(controller)
    table.add("a", opened)
    assert not table.drop("a", other)
    assert table.drop("a", opened)
    assert not table.drop("a", opened)
    with pytest.raises(DuplicateRequestError):
        table.add("a", other)
    table.forget("a")
    table.add("a", other)


def test_idleness_is_told_at_once_or_when_the_last_request_ends(
    controller: AdmissionController,
) -> None:
    table, calls = RequestTable(), list[int]()
    table.when_idle(lambda: calls.append(1))
    opened = request(controller)
    table.add("a", opened)
    table.when_idle(lambda: calls.append(2))
    assert calls == [1]
    table.end(opened)
    assert calls == [1, 2]


def test_a_closed_table_takes_nothing_and_keeps_the_first_reason(
    controller: AdmissionController,
) -> None:
    table = RequestTable()
    table.close("first")
    table.close("second")
    with pytest.raises(UnavailableError, match="first"):
        table.add("a", request(controller))
