"""A run counts as whole only if every group ran and nothing was left out."""

from __future__ import annotations

import pytest

pytest_plugins = "pytester"

PROJECT = """
[tool.pytest.ini_options]
markers = ["red: one group", "blue: another"]
"""
WHOLE = """
import pytest

@pytest.mark.red
@pytest.mark.blue
def test_both(): pass

@pytest.mark.red
@pytest.mark.parametrize("number", range(3))
def test_red(number): pass

def test_plain(): pass
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    # Each run inside the run would load every installed plugin again, at a second a time.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyprojecttoml(PROJECT)
    pytester.makepyfile(test_whole=WHOLE)
    return pytester


def run(project: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return project.runpytest_inprocess("-p", "tests.marker_report", *arguments)


def test_each_group_is_counted_and_a_test_with_two_markers_in_both(
    project: pytest.Pytester,
) -> None:
    result = run(project)
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["red * 4", "blue * 1", "unmarked * 1"])
    result.stdout.no_fnmatch_line("FAILED *")


@pytest.mark.parametrize(
    ("expression", "empty"), [("not both", "blue"), ("both", "unmarked"), ("plain", "red")]
)
def test_an_empty_group_fails_the_run(
    project: pytest.Pytester, expression: str, empty: str
) -> None:
    result = run(project, "-k", expression)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines([f"FAILED no test ran: {empty}"])


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ("@pytest.mark.skip\ndef test_left_out(): pass", "skipped: *::test_left_out"),
        ("def test_left_out(): pytest.skip()", "skipped: *::test_left_out"),
        ("@pytest.mark.xfail\ndef test_left_out(): assert 0", "expected to fail: *::test_left_out"),
        ("pytest.skip(allow_module_level=True)", "skipped: test_other.py"),
    ],
)
def test_a_test_left_out_fails_the_run(project: pytest.Pytester, body: str, complaint: str) -> None:
    project.makepyfile(test_other=f"import pytest\n\n{body}\n")
    result = run(project)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines([f"FAILED {complaint}"])


def test_a_deselected_test_fails_the_run(project: pytest.Pytester) -> None:
    result = run(project, "-k", "not (red and 2)")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["FAILED deselected: *test_red?2?"])


def test_a_failing_test_counts_as_run_and_fails_the_run_by_itself(
    project: pytest.Pytester,
) -> None:
    project.makepyfile(test_other="def test_wrong(): assert 0")
    result = run(project)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["unmarked * 2"])
    result.stdout.no_fnmatch_line("FAILED no test ran*")
