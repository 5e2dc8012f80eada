"""Who goes next in a stage."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.scheduler import AudioScheduler, GroupTooLargeError

RATE = 1000


def scheduler(max_batch_size: int = 4, steps_in_flight: int = 1) -> AudioScheduler:
    return AudioScheduler(
        max_batch_size=max_batch_size, steps_in_flight=steps_in_flight, sample_rate=RATE
    )


def add(s: AudioScheduler, *names: str, now: float = 0.0, priority: int = 0) -> None:
    for name in names:
        s.add(name, now, priority=priority)
        s.set_runnable(name, True, now)


def run(s: AudioScheduler, now: float) -> list[str]:
    batch = s.schedule(now)
    s.step_done(batch, now)
    return batch


def test_first_chunks_go_first_in_order_of_arrival() -> None:
    s = scheduler(max_batch_size=1)
    add(s, "old")
    s.output_sent("old", 1000, 0.0)
    add(s, "new1", "new2")
    assert run(s, 0.1) == ["new1"]
    s.output_sent("new1", 5000, 0.1)
    assert run(s, 0.1) == ["new2"]


def test_a_listener_who_is_about_to_run_dry_goes_before_first_chunks() -> None:
    s = scheduler(max_batch_size=1)
    add(s, "rich", "poor", "poorer")
    s.output_sent("rich", 1000, 0.0)
    s.output_sent("poor", 290, 0.0)
    s.output_sent("poorer", 280, 0.0)
    add(s, "new")
    assert run(s, 0.1) == ["new"]
    assert run(s, 0.2) == ["poorer"]
    s.output_sent("poorer", 1000, 0.2)
    assert run(s, 0.2) == ["poor"]


def test_first_chunks_wait_for_no_request_of_a_stage_without_audio() -> None:
    s = scheduler(max_batch_size=1)
    add(s, "old")
    s.output_sent("old", 0, 0.0)
    add(s, "new")
    assert run(s, 0.1) == ["new"]


def test_a_lower_priority_value_goes_before_an_earlier_arrival() -> None:
    s = scheduler(max_batch_size=1)
    add(s, "usual")
    add(s, "urgent", priority=-1)
    assert run(s, 0.0) == ["urgent"]


def test_among_running_requests_the_one_that_runs_dry_soonest_goes_first() -> None:
    s = scheduler(max_batch_size=1)
    add(s, "rich", "poor")
    s.output_sent("rich", 3000, 0.0)
    s.output_sent("poor", 500, 0.1)
    assert run(s, 0.2) == ["poor"]


def test_the_time_since_the_first_chunk_counts_against_what_was_sent() -> None:
    s = scheduler(max_batch_size=1)
    add(s, "early", "late")
    s.output_sent("early", 1000, 0.0)
    s.output_sent("late", 900, 0.5)
    assert run(s, 0.6) == ["early"]


def test_no_request_waits_longer_than_the_bound_for_a_crowd_of_new_ones() -> None:
    s = scheduler(max_batch_size=1)
    add(s, "old")
    s.output_sent("old", 100_000, 0.0)
    order = []
    for number in range(40):
        now = 0.05 * number
        add(s, f"new{number}", f"other{number}", now=now)
        order += run(s, now)
    assert "old" in order[:20]


def test_stages_without_audio_serve_whoever_was_served_longest_ago() -> None:
    s = scheduler(max_batch_size=1)
    add(s, "a", "b")
    served = []
    for number in range(6):
        (name,) = run(s, 0.01 * number)
        s.output_sent(name, 0, 0.01 * number)
        served.append(name)
    assert served == ["a", "b", "a", "b", "a", "b"]


def test_two_requests_take_two_steps_rather_than_one_batch() -> None:
    s = scheduler(max_batch_size=4, steps_in_flight=2)
    add(s, "a", "b")
    assert s.schedule(0.0) == ["a"]
    assert s.schedule(0.0) == ["b"]
    assert s.schedule(0.0) == []


def test_batches_are_bounded_and_disjoint() -> None:
    s = scheduler(max_batch_size=3, steps_in_flight=2)
    add(s, *"abcdefgh")
    first, second = s.schedule(0.0), s.schedule(0.0)
    assert len(first) == len(second) == 3
    assert not set(first) & set(second)


@pytest.mark.parametrize("what", ["paused", "idle", "removed"])
def test_what_cannot_run_is_not_scheduled(what: str) -> None:
    s = scheduler()
    add(s, "a", "b")
    if what == "paused":
        s.set_paused("a", True, 0.0)
    elif what == "idle":
        s.set_runnable("a", False, 0.0)
    else:
        s.remove("a")
    assert run(s, 0.0) == ["b"]


def test_a_request_added_paused_runs_once_it_is_resumed() -> None:
    s = scheduler()
    s.add("a", 0.0, paused=True)
    s.set_runnable("a", True, 0.0)
    assert run(s, 0.0) == []
    s.set_paused("a", False, 0.0)
    assert run(s, 0.0) == ["a"]


def test_a_request_removed_during_its_step_leaves_no_trace() -> None:
    s = scheduler()
    add(s, "a")
    batch = s.schedule(0.0)
    s.remove("a")
    s.step_done(batch, 0.1)
    assert s.num_requests == 0
    add(s, "b")
    assert run(s, 0.2) == ["b"]


# --- groups --------------------------------------------------------------------------------------


def add_group(s: AudioScheduler, *names: str, size: int | None = None) -> None:
    for name in names:
        s.add(name, 0.0, group_id=names[0], group_size=size or len(names))
        s.set_runnable(name, True, 0.0)


def test_a_group_is_scheduled_in_one_batch_or_not_at_all() -> None:
    s = scheduler(max_batch_size=3)
    add(s, "solo1", "solo2")
    add_group(s, "g", "g/0")
    assert run(s, 0.0) == ["solo1", "solo2"]
    for name in ("solo1", "solo2"):
        s.output_sent(name, 100, 0.0)
    assert run(s, 0.0)[:2] == ["g", "g/0"]


def test_a_group_waits_for_its_last_member() -> None:
    s = scheduler()
    add_group(s, "g", size=2)
    assert run(s, 0.0) == []
    s.add("g/0", 0.0, group_id="g", group_size=2)
    s.set_runnable("g/0", True, 0.0)
    assert sorted(run(s, 0.0)) == ["g", "g/0"]


@pytest.mark.parametrize("member", ["g", "g/0"])
def test_a_paused_member_holds_its_group(member: str) -> None:
    s = scheduler()
    add_group(s, "g", "g/0")
    s.set_paused(member, True, 0.0)
    assert run(s, 0.0) == []


def test_a_group_goes_on_without_a_finished_member_and_stops_without_a_lost_one() -> None:
    s = scheduler()
    add_group(s, "g", "g/0")
    s.finish("g/0")
    assert run(s, 0.0) == ["g"]
    add_group(s, "h", "h/0")
    s.remove("h/0")
    s.remove("g")
    assert run(s, 0.0) == []


def test_a_group_larger_than_a_batch_is_refused() -> None:
    s = scheduler(max_batch_size=2)
    with pytest.raises(GroupTooLargeError, match=r"group of 3 .* max_batch_size 2"):
        s.add("g", 0.0, group_id="g", group_size=3)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=8), st.integers(4, 6), st.integers(1, 3))
def test_groups_are_never_split_and_everyone_is_served(
    sizes: list[int], max_batch_size: int, steps_in_flight: int
) -> None:
    s = scheduler(max_batch_size, steps_in_flight)
    groups = [[f"g{i}", *(f"g{i}/{j}" for j in range(size - 1))] for i, size in enumerate(sizes)]
    for names in groups:
        add_group(s, *names)
    served: set[str] = set()
    for step in range(100):
        batch = run(s, 0.01 * step)
        assert len(batch) <= max_batch_size
        for names in groups:
            assert set(names) <= set(batch) or not set(names) & set(batch)
        served |= set(batch)
        for name in batch:
            s.output_sent(name, 10, 0.01 * step)
    assert served == {name for names in groups for name in names}


# --- trials --------------------------------------------------------------------------------------


def test_in_a_trial_nothing_else_runs_before_or_beside_it() -> None:
    s = scheduler(max_batch_size=4, steps_in_flight=2)
    add(s, "other", "suspect")
    before = s.schedule(0.0)
    assert before == ["other"]
    s.start_trial("suspect")
    assert s.schedule(0.0) == []
    s.step_done(before, 0.1)
    assert s.schedule(0.1) == ["suspect"]
    assert s.schedule(0.1) == []
    s.step_done(["suspect"], 0.2)
    s.end_trial()
    assert sorted(s.schedule(0.2) + s.schedule(0.2)) == ["other", "suspect"]


@pytest.mark.parametrize("what", ["paused", "idle", "removed"])
def test_a_suspect_that_cannot_run_is_known(what: str) -> None:
    s = scheduler()
    add(s, "a")
    assert s.can_run("a")
    if what == "paused":
        s.set_paused("a", True, 0.0)
    elif what == "idle":
        s.set_runnable("a", False, 0.0)
    else:
        s.remove("a")
    assert not s.can_run("a")


def test_a_trial_takes_the_whole_group() -> None:
    s = scheduler()
    add(s, "other")
    add_group(s, "g", "g/0")
    s.start_trial("g")
    assert sorted(run(s, 0.0)) == ["g", "g/0"]
