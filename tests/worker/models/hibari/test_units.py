"""Seeds of units."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from worker.models.hibari.units import unit_seed

SEEDS = st.integers(-(2**63), 2**63 - 1)


@given(SEEDS, st.integers(0, 10**6))
def test_a_seed_is_a_function_of_its_request_and_number_and_fits_63_bits(seed: int, n: int) -> None:
    assert unit_seed(seed, n) == unit_seed(seed, n)
    assert 0 <= unit_seed(seed, n) < 2**63


@given(SEEDS)
def test_units_and_neighbouring_requests_get_different_seeds(seed: int) -> None:
    seeds = {unit_seed(s, n) for s in (seed, seed + 1) for n in range(50)}
    assert len(seeds) == 100
