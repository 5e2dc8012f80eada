from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.figures import Better, Figure, Report, as_json, as_table, write_json


@pytest.mark.parametrize(
    ("value", "reference", "target", "better", "meets"),
    [
        (90.0, 100.0, 0.9, "higher", True),
        (89.0, 100.0, 0.9, "higher", False),
        (45.0, 100.0, 0.45, "lower", True),
        (46.0, 100.0, 0.45, "lower", False),
        (49.0, None, 50.0, "lower", True),
        (51.0, None, 50.0, "lower", False),
        (0.0, 0.0, 1.0, "lower", True),
        (0.1, 0.0, 1.0, "lower", False),
        (1.0, 2.0, None, "higher", None),
    ],
)
def test_a_target_bounds_the_ratio_or_without_reference_the_value(
    value: float, reference: float | None, target: float | None, better: Better, meets: bool | None
) -> None:
    assert Figure("f", value, "s", reference, target, better).meets_target is meets


def test_the_json_holds_ratio_and_verdict_and_can_be_read_back(tmp_path: Path) -> None:
    report = Report("speed", [Figure("f", 3.0, "s", 4.0, 0.7)], {"runs": [1, 2]})
    path = tmp_path / "new" / "speed.json"
    write_json(path, as_json(report, {"num_cores": 2}))
    data = json.loads(path.read_text())
    assert data["figures"][0]["ratio"] == 0.75
    assert data["figures"][0]["meets_target"] is True
    assert data["details"] == {"runs": [1, 2]}
    assert data["machine"] == {"num_cores": 2}


def test_the_table_has_a_line_per_figure_and_marks_a_missed_target() -> None:
    figures = [Figure("good", 3.0, "s", 4.0, 0.7), Figure("bad", 1.0, "s", 4.0, 0.7)]
    table = as_table([Report("speed", figures)]).splitlines()
    assert len(table) == 4
    assert table[2].split() == ["speed", "good", "3", "4", "s", "0.75", ">=", "0.7", "ok"]
    assert table[3].endswith("MISSED")
