"""W3C trace context, as clients send it and as log lines show it."""

from __future__ import annotations

import logging

import pytest

from engine.trace import FieldFormatter, log_fields, trace_headers, trace_id

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (PARENT, TRACE),
        (f" {PARENT} ", TRACE),
        (f"01-{TRACE}-b7ad6b7169203331-01-of a later version", TRACE),
        (f"ff-{TRACE}-b7ad6b7169203331-01", None),
        (PARENT.upper(), None),
        (PARENT.replace(TRACE, "0" * 32), None),
        (f"{PARENT}\nforged=1", None),
        (PARENT[:-1], None),
        ("", None),
    ],
)
def test_only_a_valid_traceparent_names_a_trace(value: str, expected: str | None) -> None:
    assert trace_id({"traceparent": value}) == expected


def test_of_a_requests_headers_only_those_of_its_trace_travel() -> None:
    raw = [
        (b"authorization", b"secret"),
        (b"traceparent", PARENT.encode()),
        (b"tracestate", b"a=1"),
    ]
    assert trace_headers(raw) == {"traceparent": PARENT, "tracestate": "a=1"}


def test_a_log_line_ends_with_its_request_and_trace() -> None:
    formatter = FieldFormatter("%(levelname)s: %(message)s")
    record = logging.makeLogRecord({"levelname": "INFO", "msg": "it failed"})
    assert formatter.format(record) == "INFO: it failed"
    record.__dict__.update(log_fields("r1", {"traceparent": PARENT}))
    assert formatter.format(record) == f"INFO: it failed request_id=r1 trace_id={TRACE}"
