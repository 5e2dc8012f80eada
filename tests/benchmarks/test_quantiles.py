from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.quantiles import percentile, quiet_ones

values = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50)


@pytest.mark.parametrize(
    ("percent", "expected"), [(0, 1), (1, 1), (50, 50), (95, 95), (99, 99), (100, 100)]
)
def test_a_percentile_of_1_to_100_is_its_own_number(percent: float, expected: float) -> None:
    assert percentile([float(n) for n in range(100, 0, -1)], percent) == expected


@given(values, st.floats(0, 100))
def test_enough_values_do_not_exceed_a_percentile(found: list[float], percent: float) -> None:
    bound = percentile(found, percent)
    assert bound in found
    assert sum(value <= bound for value in found) >= len(found) * percent / 100


def test_a_percentile_needs_values_and_a_percentage() -> None:
    with pytest.raises(ValueError, match="at least one value"):
        percentile([], 50)
    with pytest.raises(ValueError, match="from 0 to 100, got 101"):
        percentile([1.0], 101)


def test_noisy_rounds_are_left_out_when_three_quiet_ones_are_left() -> None:
    assert quiet_ones([0.1, 0.9, 0.0, 0.05], lambda r: r, 0.15) == [0.1, 0.0, 0.05]


def test_two_quiet_rounds_are_too_few() -> None:
    rounds = [0.1, 0.9, 0.0, 0.5]
    assert quiet_ones(rounds, lambda r: r, 0.15) == rounds
