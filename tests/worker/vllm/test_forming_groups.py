"""Groups are opened when their last member has come."""

from __future__ import annotations

import pytest

from engine.errors import StageFailedError
from engine.messages import SamplingParams, StageRequest
from worker.vllm.forming_groups import FormingGroups


def member(request_id: str, group_id: str | None = "g", role: str | None = None) -> StageRequest:
    return StageRequest(
        request_id, {}, SamplingParams(), 1, group_id=group_id, group_size=2, role=role
    )


def test_a_request_by_itself_is_whole() -> None:
    own = member("a", group_id=None)
    assert FormingGroups().add(own) == (own, {})


def test_a_group_is_whole_with_its_last_member_whichever_comes_first() -> None:
    own, free = member("a"), member("a/free", role="free")
    for first, second in ((own, free), (free, own)):
        groups = FormingGroups()
        assert groups.add(first) is None
        assert groups.num_requests == 1
        assert groups.add(second) == (own, {"free": free})
        assert groups.num_requests == 0


def test_a_member_that_is_dropped_leaves_nothing() -> None:
    groups = FormingGroups()
    groups.add(member("a"))
    groups.drop("a")
    assert groups.num_requests == 0


def test_a_pause_reaches_a_request_that_waits_for_its_companions() -> None:
    groups, own = FormingGroups(), member("a")
    groups.add(own)
    groups.set_paused("a", True)
    assert own.paused


def test_a_group_of_companions_alone_is_an_error() -> None:
    groups = FormingGroups()
    groups.add(member("a/x", role="x"))
    with pytest.raises(StageFailedError, match="0 rows without role"):
        groups.add(member("a/y", role="y"))
