from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.arrivals import Bisection, poisson_times


def test_arrivals_are_as_many_and_as_uneven_as_a_poisson_process_has() -> None:
    times = list(poisson_times(50.0, 400.0, seed=1))
    gaps = [later - earlier for earlier, later in pairwise(times)]
    mean = sum(gaps) / len(gaps)
    deviation = (sum((gap - mean) ** 2 for gap in gaps) / len(gaps)) ** 0.5
    assert len(times) == pytest.approx(20_000, rel=0.03)
    # Of an exponential distribution the standard deviation is the mean.
    assert deviation == pytest.approx(mean, rel=0.03)
    assert times == sorted(times)
    assert times[0] > 0
    assert times[-1] < 400.0


def test_the_seed_decides_the_arrivals() -> None:
    assert list(poisson_times(9, 9, 5)) == list(poisson_times(9, 9, 5))
    assert list(poisson_times(9, 9, 5)) != list(poisson_times(9, 9, 6))


def test_a_rate_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="rate_per_s must be above 0, got 0"):
        next(poisson_times(0, 1, 1))


@given(st.floats(0.31, 1.19))
def test_the_search_finds_the_highest_level_that_passes(limit: float) -> None:
    search = Bisection(0.3, 1.2, 0.05)
    num_tries = 0
    while search.level is not None:
        assert 0.3 - 0.05 <= search.level <= 1.2 + 0.05
        search.report(search.level <= limit)
        num_tries += 1
    assert search.best <= limit
    assert limit - search.best <= 0.05 or (search.best == 0.0 and limit < 0.35)
    assert num_tries <= 6


def test_the_search_ends_with_nothing_when_nothing_passes() -> None:
    search = Bisection(0.3, 1.2, 0.05)
    while search.level is not None:
        search.report(False)
    assert search.best == 0.0
