"""Seeds that follow from a request's own."""

from __future__ import annotations

from worker.seeds import nth_seed


def test_seeds_are_those_of_splitmix64() -> None:
    """The first values of the generator with seed 0, as its authors' C code gives them."""
    assert [2 * nth_seed(0, n) for n in range(2)] == [
        0xE220A8397B1DCDAF & ~1,
        0x6E789E6AA1B965F4 & ~1,
    ]


def test_any_64_bit_seed_gives_seeds_that_a_message_can_carry() -> None:
    seeds = {nth_seed(seed, n) for seed in (-(2**63), -1, 0, 2**63 - 1) for n in range(100)}
    assert len(seeds) == 400
    assert all(0 <= seed < 2**63 for seed in seeds)
