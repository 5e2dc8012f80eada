"""What is told of failures, and what the log keeps."""

from __future__ import annotations

import pytest

from engine.errors import ConfigError
from worker.failures import one_line, tell_start_failure


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "reason", "traced"),
    [
        (ConfigError("there is no folder x"), "there is no folder x", None),
        (
            caused(ConfigError("cannot load x: gone"), OSError("gone")),
            "cannot load x: gone",
            OSError,
        ),
        (RuntimeError("missing:\n\ta.weight"), "RuntimeError: missing: a.weight", RuntimeError),
    ],
)
def test_why_a_replica_cannot_start_is_one_line_and_a_foreseen_reason_has_no_traceback(
    error: Exception,
    reason: str,
    traced: type[Exception] | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert tell_start_failure("talker-0.1", error) == reason
    (record,) = caplog.records
    assert record.getMessage() == f"replica talker-0.1 cannot load its model: {reason}"
    assert (record.exc_info[0] if record.exc_info else None) is traced


def test_the_words_of_a_library_are_bounded_and_never_none() -> None:
    assert one_line(RuntimeError("no\n such  key")) == "no such key"
    assert len(one_line(RuntimeError("weight " * 1000))) == 500
    assert one_line(EOFError()) == "EOFError"
