"""Aborts are answered when, and only when, everyone has let go."""

from __future__ import annotations

import pytest

from engine.messages import AbortedMessage
from engine.orchestrator.releases import Releases


def releases() -> tuple[Releases, list[int]]:
    answered: list[int] = []

    def answer(message: AbortedMessage) -> None:
        answered.append(message.abort_id)

    return Releases(answer), answered


def test_an_abort_waits_for_every_replica_of_every_request() -> None:
    held, answered = releases()
    for request_id, replica_id in (("a", "x"), ("a", "y"), ("b", "x")):
        held.expect(request_id, replica_id)
    held.add_abort(1, ["a", "b", "unknown"])
    held.done("a", "x")
    held.done("b", "x")
    assert answered == []
    held.done("a", "y")
    assert answered == [1]
    held.check_integrity()


def test_an_abort_of_what_nobody_holds_is_answered_at_once() -> None:
    held, answered = releases()
    held.add_abort(1, ["a"])
    assert answered == [1]


def test_a_replica_that_is_gone_holds_nothing() -> None:
    held, answered = releases()
    held.expect("a", "x")
    held.expect("b", "x")
    held.expect("b", "y")
    held.add_abort(1, ["a"])
    held.add_abort(2, ["b"])
    held.replica_gone("x")
    assert answered == [1]
    assert held.is_held("b", "y")
    assert not held.is_held("b", "x")


def test_what_is_left_is_found() -> None:
    held, _ = releases()
    held.expect("a", "x")
    with pytest.raises(AssertionError, match="still releasing"):
        held.check_integrity()
