"""A pytest plugin for whole runs (``-p tests.marker_report``): what ran, per marker.

The run fails if any marker of ``pyproject.toml``, or the unmarked rest, has run no test, and if a
test was skipped, deselected or expected to fail. A test with two markers counts for both.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

UNMARKED = "unmarked"


class MarkerReport:
    """Counts the tests of a run. ``markers`` are the groups, beside the unmarked rest."""

    def __init__(self, markers: Sequence[str]) -> None:
        self._markers = markers
        self._groups_of: dict[str, tuple[str, ...]] = {}
        self._num_ran: Counter[str] = Counter()
        self._left_out: list[str] = []

    @property
    def complaints(self) -> list[str]:
        """Why this was not a whole run; empty if it was one."""
        empty = [group for group in (*self._markers, UNMARKED) if not self._num_ran[group]]
        return [f"no test ran: {group}" for group in empty] + self._left_out

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            own = {mark.name for mark in item.iter_markers()}
            groups = tuple(marker for marker in self._markers if marker in own)
            self._groups_of[item.nodeid] = groups or (UNMARKED,)

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        self._left_out += [f"deselected: {item.nodeid}" for item in items]

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self._left_out.append(f"skipped: {report.nodeid}")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped:
            verb = "expected to fail" if hasattr(report, "wasxfail") else "skipped"
            self._left_out.append(f"{verb}: {report.nodeid}")
        elif report.when == "call":
            self._num_ran.update(self._groups_of[report.nodeid])

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if session.exitstatus == pytest.ExitCode.OK and self.complaints:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("tests run, per marker")
        for group in (*self._markers, UNMARKED):
            terminalreporter.line(f"{group:10} {self._num_ran[group]:6}")
        for complaint in self.complaints:
            terminalreporter.line(f"FAILED {complaint}", red=True)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(MarkerReport(read_markers(config.rootpath / "pyproject.toml")))


def read_markers(path: Path) -> list[str]:
    """The names of the markers that ``path`` declares, in its order."""
    options = tomllib.loads(path.read_text(encoding="utf-8"))["tool"]["pytest"]["ini_options"]
    return [line.partition(":")[0].strip() for line in options["markers"]]
