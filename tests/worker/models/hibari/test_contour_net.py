"""The second half of the prosody net: the same curves, under other durations, of parts alone."""

from __future__ import annotations

import functools

import numpy as np

from tests.worker.models.hibari import bundled
from worker.models.hibari.contour_net import REACH_UNITS, ContourNet


@functools.cache
def net() -> ContourNet:
    return ContourNet(bundled.voice())


def test_its_own_durations_give_the_prosody_nets_bits() -> None:
    for text in (bundled.SHORT, bundled.LONG, bundled.QUESTION):
        for speed in (0.8, 1.0, 1.3):
            whole = bundled.frames(text, speed)
            read = net().read(bundled.ids(text), speed)
            assert np.array_equal(read.durations, whole.durations)
            f0, energy = net().run(read.features, whole.durations)
            assert np.array_equal(f0, whole.f0)
            assert np.array_equal(energy, whole.energy)


def test_a_part_with_its_surroundings_has_nearly_the_curves_of_the_whole() -> None:
    read = net().read(bundled.ids(bundled.LONG), 1.0)
    durations = (2 * read.durations).astype(np.int32)
    ends = np.cumsum(durations)
    whole = net().run(read.features, durations)
    start, stop = 30, 34
    low = int(np.searchsorted(ends, ends[start - 1] - REACH_UNITS))
    high = int(np.searchsorted(ends, ends[stop] + REACH_UNITS)) + 1
    assert 0 < low < high < durations.size
    part = net().run(read.features[low:high], durations[low:high])
    offset = 2 * (ends[start - 1] - ends[low - 1])
    inside = slice(2 * ends[start - 1], 2 * ends[stop])
    got = part[:, offset : offset + inside.stop - inside.start]
    # Not the same bits: the net's int8 products take their scales from all that they see.
    voiced = whole[0, inside] > 70
    assert voiced.sum() >= 10
    assert np.abs(got[0] - whole[0, inside])[voiced].mean() < 3
    assert np.abs(got[1] - whole[1, inside]).mean() < 0.2
