"""What a benchmark reports: figures beside their reference, as a table and as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

Better = Literal["higher", "lower"]


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value.

    ``reference`` is the same measure of the bare library in the same run; then ``target`` bounds
    the ratio of the two, else the value itself. A figure without a target is for information.
    """

    name: str
    value: float
    unit: str
    reference: float | None = None
    target: float | None = None
    better: Better = "higher"

    @property
    def ratio(self) -> float | None:
        return self.value / self.reference if self.reference else None

    @property
    def meets_target(self) -> bool | None:
        """None without a target."""
        if self.target is None:
            return None
        # Multiplied, not divided: a reference of 0 is a legal one.
        bound = self.target * (1.0 if self.reference is None else self.reference)
        return self.value >= bound if self.better == "higher" else self.value <= bound


@dataclass(frozen=True, slots=True)
class Report:
    """A benchmark's figures, and what else is worth keeping."""

    benchmark: str
    figures: Sequence[Figure]
    details: Mapping[str, Any] = field(default_factory=dict)


def as_json(report: Report, machine: Mapping[str, Any]) -> dict[str, Any]:
    """The report as plain data."""
    figures = [
        asdict(figure) | {"ratio": figure.ratio, "meets_target": figure.meets_target}
        for figure in report.figures
    ]
    return {
        "benchmark": report.benchmark,
        "machine": dict(machine),
        "figures": figures,
        "details": dict(report.details),
    }


def write_json(path: Path, data: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data, indent=1, default=float) + "\n", encoding="utf-8")


def as_table(reports: Sequence[Report]) -> str:
    """The figures of all reports, one line each."""
    rows = [("benchmark", "figure", "voxloom", "bare", "unit", "ratio", "target", "")]
    for report in reports:
        rows += [(report.benchmark, *_row(figure)) for figure in report.figures]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(
            cell.ljust(width) if column in (0, 1, 4, 7) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def _row(figure: Figure) -> tuple[str, str, str, str, str, str, str]:
    sign = ">=" if figure.better == "higher" else "<="
    return (
        figure.name,
        _number(figure.value),
        _number(figure.reference),
        figure.unit,
        "" if figure.ratio is None else f"{figure.ratio:.2f}",
        "" if figure.target is None else f"{sign} {figure.target:g}",
        {None: "", True: "ok", False: "MISSED"}[figure.meets_target],
    )


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
