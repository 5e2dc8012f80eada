"""Request ids and outcomes."""

from __future__ import annotations

from typing import Any

import pytest

from server.context import RequestContext, context_of, note_route, open_context


@pytest.mark.parametrize("given", [b"abc", b"a-b_c.d:1", b"x" * 128])
def test_a_sane_id_of_the_client_is_kept(given: bytes) -> None:
    scope = {"headers": [(b"x-request-id", given)]}

    assert open_context(scope).request_id == given.decode()
    assert context_of(scope).request_id == given.decode()


@pytest.mark.parametrize("given", [b"", b"x" * 129, b"a b", b"a\tb", b"\xe4", b"a,b", b"a\n"])
def test_any_other_id_is_replaced(given: bytes) -> None:
    context = open_context({"headers": [(b"x-request-id", given)]})

    assert context.request_id.startswith("req_")


def test_engine_ids_are_unique_even_if_clients_repeat_theirs() -> None:
    contexts = [RequestContext("same") for _ in range(3)]

    assert len({context.engine_request_id() for context in contexts}) == 3


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (None, "disconnected"),
        (101, "ok"),
        (200, "ok"),
        (404, "client_error"),
        (429, "overloaded"),
        (503, "server_error"),
    ],
)
def test_the_outcome_follows_the_status(status: int | None, outcome: str) -> None:
    assert RequestContext("x", status=status).final_outcome() == outcome


def test_an_outcome_that_was_noted_wins() -> None:
    assert RequestContext("x", status=200, outcome="broken").final_outcome() == "broken"


def test_the_route_is_a_template_or_unmatched() -> None:
    scope: dict[str, Any] = {"headers": []}
    open_context(scope)
    note_route(scope, {"path": "/anything"})

    assert context_of(scope).route == "unmatched"
