from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.talking_server import Step, busy_s, read_steps

STEPS = [Step("a", 1.0, 3.0), Step("a", 2.0, 4.0), Step("b", 5.0, 6.0), Step("a", 9.0, 10.0)]


def test_the_steps_are_read_from_among_other_lines(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(
        "INFO voxloom: ready\n"
        "DEBUG voxloom.worker.step_loop: vad stepped from 1.500000 to 1.501000: ['a', 'b']\n"
        "DEBUG voxloom.worker.step_loop: whisper stepped from 2.000000 to 2.250000: ['a']\n"
    )
    assert read_steps(log) == [Step("vad", 1.5, 1.501), Step("whisper", 2.0, 2.25)]


@pytest.mark.parametrize(
    ("stages", "first", "last", "expected"),
    [
        (("a",), 0.0, 10.0, 4.0),  # what overlaps counts once
        (("a", "b"), 0.0, 10.0, 5.0),
        (("a",), 2.5, 3.5, 1.0),
        (("a",), 9.5, 20.0, 0.5),
        (("b",), 0.0, 5.0, 0.0),
        (("c",), 0.0, 10.0, 0.0),
    ],
)
def test_time_is_busy_when_a_step_of_the_stages_runs(
    stages: tuple[str, ...], first: float, last: float, expected: float
) -> None:
    assert busy_s(STEPS, stages, first, last) == pytest.approx(expected)
