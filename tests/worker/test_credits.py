"""How far a replica may take each of its requests."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.messages import SamplingParams, StageRequest
from worker.credits import Credits


def request(credit: int, num_sent: int = 0) -> StageRequest:
    return StageRequest("r", {}, SamplingParams(), 0, credit=credit, num_sent=num_sent)


def test_a_request_stops_without_credit_and_goes_on_with_the_next_grant() -> None:
    credits = Credits()
    credits.add(request(10))
    assert credits.allows("r")
    credits.use("r", 4)
    credits.use("r", 6)
    assert not credits.allows("r")
    credits.grant("r", 11)
    assert credits.allows("r")


def test_what_was_sent_before_a_replay_counts() -> None:
    credits = Credits()
    credits.add(request(10, num_sent=10))
    assert not credits.allows("r")


@given(st.lists(st.integers(0, 50), max_size=10))
def test_grants_that_come_late_or_twice_never_take_anything_back(grants: list[int]) -> None:
    credits = Credits()
    credits.add(request(5))
    for grant in grants:
        credits.grant("r", grant)
    highest = max([5, *grants])
    credits.use("r", highest - 1)
    assert credits.allows("r")
    credits.use("r", 1)
    assert not credits.allows("r")


def test_a_request_that_is_gone_is_not_allowed_and_leaves_nothing() -> None:
    credits = Credits()
    credits.add(request(10))
    credits.drop("r")
    credits.grant("r", 20)
    credits.use("r", 1)
    assert not credits.allows("r")
    assert len(credits) == 0
