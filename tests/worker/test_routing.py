"""From a step's output to rows: each request gets its own elements, or none."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from worker.routing import route_step
from worker.stage_model import RowStatus, StepOutput


def step(ids: list[str], audio_ids: list[str], *, marker: object = ("1",)) -> StepOutput:
    audio = [np.full(10 + len(name), int(name[1:]), np.int16) for name in audio_ids]
    carrier = list(marker) if isinstance(marker, tuple) else marker
    meta = {"req_id": audio_ids, "sparse_audio": carrier}
    rows = {name: RowStatus(end_position=100, units_done=1, done_position=50) for name in ids}
    return StepOutput({"meta": meta, "audio": audio}, rows)


def test_a_strict_subset_gets_its_own_audio_and_the_others_get_none() -> None:
    routed = route_step("audio", ["r1", "r2", "r3"], step(["r1", "r2", "r3"], ["r3", "r1"]))
    payloads = {row.request_id: row.payload for row in routed.rows}
    assert payloads["r2"] is None
    assert payloads["r1"] is not None
    assert payloads["r3"] is not None
    assert payloads["r1"]["audio"][0] == 1
    assert payloads["r3"]["audio"][0] == 3
    assert routed.num_routed_rows == 2


def test_positions_tell_where_a_payload_lies_or_would_have_ended() -> None:
    routed = route_step("audio", ["r1", "r2"], step(["r1", "r2"], ["r1"]))
    first, second = routed.rows
    assert (first.start_sample, first.num_samples) == (88, 12)
    assert (second.start_sample, second.num_samples) == (100, 0)
    assert (first.units_done, first.done_position) == (1, 50)


def test_a_unit_that_is_not_audio_counts_as_one() -> None:
    output = StepOutput(
        {"meta": {"req_id": ["r1"], "sparse_audio": ["1"]}, "unit": [{"a": 1}]},
        {"r1": RowStatus(end_position=5)},
    )
    (row,) = route_step("latent", ["r1"], output).rows
    assert (row.start_sample, row.num_samples, row.payload) == (4, 1, {"unit": {"a": 1}})


def test_an_illegal_declaration_routes_nothing_and_still_ends_requests(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.CRITICAL)
    output = step(["r1"], ["r1"], marker=True)
    output.rows["r1"].finished = True
    (row,) = route_step("audio", ["r1"], output).rows
    assert row.payload is None
    assert row.finished
    assert row.start_sample == 100


def test_a_list_shorter_than_its_declaration_fails_that_request_alone() -> None:
    output = step(["r1", "r2"], ["r1", "r2"])
    output.multimodal_outputs["audio"].pop()
    routed = route_step("audio", ["r1", "r2"], output)
    assert [row.request_id for row in routed.rows] == ["r1"]
    assert list(routed.errors) == ["r2"]


def test_a_row_without_status_fails_that_request_alone() -> None:
    routed = route_step("audio", ["r1", "r2"], step(["r1"], []))
    assert list(routed.errors) == ["r2"]


def test_a_models_error_for_one_row_fails_that_request_alone() -> None:
    output = step(["r1", "r2"], ["r2"])
    output.rows["r1"].error = MemoryError("too long")
    routed = route_step("audio", ["r1", "r2"], output)
    assert isinstance(routed.errors["r1"], MemoryError)
    assert [row.request_id for row in routed.rows] == ["r2"]
