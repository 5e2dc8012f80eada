"""What a test finds depends neither on chance nor on what else the machine does.

Property tests draw the same examples in every run, and have no limit on the time that one takes. To
search further, draw anew each time: ``pytest --hypothesis-profile=search``.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

_UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("search", _UNTIMED)
settings.register_profile("same", _UNTIMED, derandomize=True)
settings.load_profile("same")


@pytest.fixture(scope="module")
def old_objects_aside() -> Iterator[None]:
    """Nothing that earlier tests left is looked through while tests count processor time.

    One collection of all that a process with torch and thousands of tests holds takes a second.
    """
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
