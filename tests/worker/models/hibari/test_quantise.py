"""Quantisers and the weights that go with them."""

from __future__ import annotations

import numpy as np
import pytest

from worker.models.hibari.graphs import Linear
from worker.models.hibari.quantise import (
    Quantiser,
    equalised_weight,
    gelu_quantiser,
    norm_quantiser,
)


def _levels(quantiser: Quantiser, x: np.ndarray) -> np.ndarray:
    return np.rint(x / quantiser.divisors / quantiser.scale) + quantiser.zero


REACH = np.array([0.5, 2, 3, 20, 0], np.float32)


def test_the_reach_of_every_channel_fits() -> None:
    for quantiser, low in ((norm_quantiser(REACH), -REACH), (gelu_quantiser(REACH), -0.17)):
        # The zero point is rounded, which may move either end out by half a step.
        assert _levels(quantiser, REACH).max() <= 256
        assert _levels(quantiser, np.broadcast_to(low, REACH.shape)).min() >= -1


def test_narrow_channels_get_finer_steps_than_wide_ones() -> None:
    steps = norm_quantiser(REACH).divisors
    assert steps[0] < steps[1] < steps[2] < steps[3]
    assert np.isclose(np.log(steps).mean(), 0, atol=1e-6)


@pytest.mark.parametrize("make", [norm_quantiser, gelu_quantiser])
def test_the_product_is_near_the_exact_one(make: object) -> None:
    random = np.random.default_rng(0)
    reach = random.uniform(0.2, 6, 64).astype(np.float32)
    x = random.uniform(-0.17, 1, (50, 64)) * reach.clip(0.17)
    weight = random.normal(0, 0.1, (64, 32)).astype(np.float32)
    linear = Linear(weight, np.zeros(32, np.float32))
    gains = random.uniform(0.02, 0.2, 32).astype(np.float32)
    quantiser = make(reach)  # type: ignore[operator]
    rounded = equalised_weight(linear, gains, quantiser)
    products = (_levels(quantiser, x) - quantiser.zero) @ rounded.values.astype(float)
    got = products * quantiser.scale * rounded.scales
    exact = x @ (linear.weight * gains)
    assert np.abs(got - exact).std() < 0.01 * exact.std()
