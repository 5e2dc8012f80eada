"""Tickets: never more out than allowed, each given back once."""

from __future__ import annotations

import pytest

from engine.admission import AdmissionController
from engine.errors import OverloadedError, UnavailableError


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_tickets_end_at_running_plus_waiting() -> None:
    controller = AdmissionController(2, 1)
    tickets = [controller.take() for _ in range(3)]
    with pytest.raises(OverloadedError):
        controller.take()
    tickets[0].release()
    controller.take()
    assert controller.num_taken == 3


def test_a_ticket_given_back_twice_counts_once() -> None:
    controller = AdmissionController(1, 1)
    ticket = controller.take()
    controller.take()
    ticket.release()
    ticket.release()
    assert controller.num_taken == 1


def test_the_estimated_wait_follows_how_long_requests_take() -> None:
    clock = Clock()
    controller = AdmissionController(1, 9, clock)
    for _ in range(100):
        ticket = controller.take()
        clock.now += 20.0
        ticket.release()
    for _ in range(10):
        controller.take()
    with pytest.raises(OverloadedError, match="10 requests") as caught:
        controller.take()
    assert caught.value.retry_after_s == pytest.approx(200.0, rel=0.01)


def test_a_short_wait_still_asks_for_a_whole_second() -> None:
    clock = Clock()
    controller = AdmissionController(100, 0, clock)
    for _ in range(100):
        controller.take().release()
    for _ in range(100):
        controller.take()
    with pytest.raises(OverloadedError) as caught:
        controller.take()
    assert caught.value.retry_after_s == 1.0


def test_after_close_no_ticket_is_given_and_those_out_stay_valid() -> None:
    controller = AdmissionController(1, 1)
    ticket = controller.take()
    controller.close()
    with pytest.raises(UnavailableError):
        controller.take()
    ticket.release()
    assert controller.num_taken == 0
