"""Each error has one status, and its envelope fits through any wire."""

from __future__ import annotations

import json

import pytest

from engine import errors
from engine.errors import OverloadedError, UnavailableError, VoxloomError
from server.errors import answer_for, envelope, envelope_bytes, error_response, internal_error


def all_errors(base: type[VoxloomError] = VoxloomError) -> list[type[VoxloomError]]:
    return [base, *(cls for sub in base.__subclasses__() for cls in all_errors(sub))]


@pytest.mark.parametrize("cls", all_errors())
def test_every_class_has_an_answer_of_the_right_kind(cls: type[VoxloomError]) -> None:
    error = OverloadedError("x", retry_after_s=1) if cls is OverloadedError else cls("x")

    status, kind = answer_for(error)

    if issubclass(cls, errors.RequestError):
        assert 400 <= status < 500
        assert kind == "invalid_request_error"
    assert (kind == "server_error") == (status >= 500)


def test_a_class_without_a_row_gets_its_parents() -> None:
    class NewError(errors.NotFoundError):
        pass

    assert answer_for(NewError("x")).status == 404


def test_a_message_of_any_text_is_sent_as_ascii() -> None:
    error = errors.InvalidRequestError("bad \ud800 ☃ \n", param="input")

    assert json.loads(envelope_bytes(error).decode("ascii")) == envelope(error)


@pytest.mark.parametrize(("wait_s", "header"), [(1.0, "1"), (1.2, "2"), (500.0, "120")])
def test_retry_after_is_whole_seconds_that_clients_honour(wait_s: float, header: str) -> None:
    response = error_response(OverloadedError("full", retry_after_s=wait_s))

    assert response.headers["retry-after"] == header


def test_an_unavailable_server_asks_to_come_back() -> None:
    assert error_response(UnavailableError("starting")).headers["retry-after"]


def test_a_bug_shows_its_request_id_only() -> None:
    assert "req_1" in internal_error("req_1").message
