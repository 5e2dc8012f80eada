"""The orchestrator's core, scenario by scenario."""

from __future__ import annotations

from typing import Any

import pytest

from engine.config import EngineConfig
from engine.messages import (
    DrainMessage,
    ErrorMessage,
    OutputMessage,
    OutputRow,
    ScaleMessage,
    StageOutput,
    StageUpdate,
)
from engine.orchestrator import records
from tests.engine.orchestrator.simulation import (
    CHUNK,
    CHUNKS_PER_UNIT,
    SAMPLE_RATE,
    Simulation,
    two_stages,
)

UNIT = CHUNK * CHUNKS_PER_UNIT


def started(**options: object) -> Simulation:
    simulation = Simulation(**options)  # type: ignore[arg-type]
    simulation.start_all()
    return simulation


def stage_replicas(simulation: Simulation, stage_id: int) -> list[str]:
    return [rid for rid, r in simulation.replicas.items() if r.stage_id == stage_id]


def error_code(simulation: Simulation, request_id: str) -> str:
    (terminal,) = simulation.callers[request_id].terminals
    assert isinstance(terminal, ErrorMessage)
    return terminal.code


def test_a_request_passes_all_stages_and_ends_once() -> None:
    simulation = started()
    simulation.add("a", 3)
    simulation.run()
    (terminal,) = simulation.callers["a"].terminals
    assert isinstance(terminal, OutputMessage)
    assert simulation.callers["a"].num_samples == 3 * UNIT
    simulation.settle()


def test_a_request_before_the_first_replica_is_ready_waits_for_it() -> None:
    simulation = Simulation()
    simulation.add("a")
    simulation.run()
    assert not simulation.callers["a"].terminals
    simulation.start_all()
    simulation.run()
    assert simulation.callers["a"].terminals
    simulation.settle()


def test_outputs_of_an_earlier_stage_are_delivered_when_asked_for() -> None:
    simulation = started()
    simulation.add("a", 2, final_stage_id=0, final_output_stage_ids=[0])
    simulation.run()
    (terminal,) = simulation.callers["a"].terminals
    assert isinstance(terminal, OutputMessage)
    assert terminal.stage_id == 0
    simulation.core.check_integrity()


def test_a_request_that_begins_at_a_later_stage_never_meets_the_first() -> None:
    simulation = Simulation()
    for replica_id in stage_replicas(simulation, 1):
        simulation.say_hello(replica_id)
    simulation.add("a", 2, first_stage_id=1)
    simulation.run()
    assert simulation.callers["a"].num_samples == 2 * UNIT
    simulation.start_all()
    simulation.settle()


def test_a_request_that_began_at_a_later_stage_outlives_its_replica() -> None:
    simulation = started()
    simulation.add("a", 2, first_stage_id=1)
    (first,) = stage_replicas(simulation, 1)
    simulation.receive(first)
    simulation.step(first, "a")
    simulation.kill(first)
    simulation.advance(1.0)
    simulation.start_all()
    simulation.run()
    assert simulation.callers["a"].num_samples == 2 * UNIT
    simulation.settle()


def test_a_request_with_two_output_stages_ends_when_both_have() -> None:
    simulation = started()
    simulation.add("a", 2, final_output_stage_ids=[0, 1])
    simulation.run()
    (terminal,) = simulation.callers["a"].terminals
    assert isinstance(terminal, OutputMessage)
    assert terminal.stage_id == 1
    simulation.settle()


def test_requests_beyond_max_running_wait_by_priority() -> None:
    simulation = started(config=EngineConfig(max_running=1))
    simulation.add("first")
    simulation.add("later", priority=1)
    simulation.add("sooner", priority=0)
    assert simulation.core.num_running == 1
    order = []
    for _ in range(200):
        simulation.turn()
        order += [r for r, c in simulation.callers.items() if c.terminals and r not in order]
    assert order == ["first", "sooner", "later"]
    simulation.settle()


def test_a_crowd_that_comes_and_goes_while_all_places_are_taken_leaves_nothing() -> None:
    simulation = started(config=EngineConfig(max_running=1))
    simulation.add("long", 50)
    simulation.add("patient", 1)
    for number in range(1000):
        simulation.add(f"r{number}")
        simulation.abort(f"r{number}")
        assert len(simulation.core._waiting) <= 4
    simulation.settle()
    assert simulation.callers["patient"].num_samples == UNIT


def test_least_loaded_spreads_requests_over_replicas() -> None:
    simulation = started(pipeline=two_stages(num_replicas=2))
    for number in range(4):
        simulation.add(f"r{number}")
    pool = simulation.core.pools[0]
    assert [len(r.bound) for r in pool.replicas.values()] == [2, 2]
    simulation.settle()


def test_data_parallel_rank_pins_the_replica() -> None:
    simulation = started(pipeline=two_stages(num_replicas=2))
    for number in range(3):
        simulation.add(f"r{number}", data_parallel_rank=1)
    ranks = {r.rank: len(r.bound) for r in simulation.core.pools[0].replicas.values()}
    assert ranks == {0: 0, 1: 3}
    simulation.settle()


@pytest.mark.parametrize("rank", [-1, 2])
def test_a_rank_that_no_replica_has_is_refused_by_name(rank: int) -> None:
    simulation = started(pipeline=two_stages(num_replicas=2))
    simulation.add("a", data_parallel_rank=rank)
    (terminal,) = simulation.callers["a"].terminals
    assert isinstance(terminal, ErrorMessage)
    assert terminal.param == "data_parallel_rank"
    simulation.settle()


def test_the_queue_wait_counts_from_the_callers_arrival_time() -> None:
    simulation = started(config=EngineConfig(max_running=1))
    simulation.add("first")
    simulation.add("second", request_timestamp=100.0, enqueue_ts=100.5)
    simulation.advance(2.0)
    simulation.run()
    (terminal,) = simulation.callers["second"].terminals
    assert isinstance(terminal, OutputMessage)
    assert terminal.queue_wait_ms == pytest.approx(2500.0)
    simulation.settle()


def test_trace_headers_reach_every_stage() -> None:
    simulation = started()
    headers = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    simulation.add("a", 1, resumable=True, trace_headers=headers)
    simulation.run()
    held = [r.requests["a"].request for r in simulation.replicas.values()]
    assert [request.trace_headers for request in held] == [headers, headers]
    simulation.settle()


def test_an_abort_is_answered_when_every_stage_has_let_go() -> None:
    simulation = started()
    simulation.add("a", 5)
    for _ in range(3):
        simulation.turn()
    abort_id = simulation.abort("a")
    assert error_code(simulation, "a") == "aborted"
    assert abort_id not in simulation.answered_aborts
    simulation.run()
    assert abort_id in simulation.answered_aborts
    simulation.settle()


def test_an_abort_of_unknown_ids_is_answered_at_once() -> None:
    simulation = started()
    assert simulation.abort("nobody") in simulation.answered_aborts


def test_an_id_may_be_used_again_while_the_old_request_is_still_being_let_go() -> None:
    simulation = started()
    simulation.add("a", 5)
    simulation.turn()
    simulation.abort("a")
    simulation.add("a", 2)
    simulation.run()
    assert simulation.callers["a"].num_samples == 2 * UNIT
    simulation.settle()


def test_a_client_that_does_not_read_pauses_its_request_and_no_other() -> None:
    config = EngineConfig(max_buffered_audio_s=2 * UNIT / SAMPLE_RATE)
    simulation = started(config=config)
    simulation.add("slow", 20)
    simulation.add("fast", 20)
    simulation.callers["slow"].reads = False
    simulation.run()
    slow, fast = simulation.callers["slow"], simulation.callers["fast"]
    assert fast.terminals
    assert not slow.terminals
    assert 2 * UNIT <= slow.num_samples <= 2 * UNIT + CHUNK
    simulation.settle()
    assert slow.num_samples == 20 * UNIT


def test_a_paused_request_holds_its_units_back_in_the_stage_before() -> None:
    config = EngineConfig(max_buffered_audio_s=CHUNK / SAMPLE_RATE)
    simulation = started(config=config)
    simulation.add("slow", 100)
    simulation.callers["slow"].reads = False
    simulation.run()
    held = sum(
        len(r.requests["slow"].inputs) for r in simulation.replicas.values() if r.stage_id == 1
    )
    limit = simulation.core.pipeline.stages[1].max_pending_units
    assert held <= limit + 1
    simulation.settle()


def test_a_killed_replica_is_replaced_and_its_requests_lose_and_repeat_nothing() -> None:
    simulation = started()
    simulation.add("a", 4)
    while simulation.callers["a"].num_samples < 5 * CHUNK:
        simulation.turn()
    simulation.kill(stage_replicas(simulation, 1)[0])
    assert not simulation.core.is_ready
    simulation.settle()
    assert simulation.callers["a"].num_samples == 4 * UNIT
    assert simulation.core.counters.num_replays == 1


@pytest.mark.parametrize("stage_id", [0, 1])
def test_a_spare_replica_takes_over_at_once(stage_id: int) -> None:
    simulation = started(pipeline=two_stages(num_replicas=2))
    simulation.add("a", 6)
    for _ in range(3):
        simulation.turn()
    bound = simulation.core.pools[stage_id].replica_of("a")
    assert bound is not None
    simulation.kill(bound.replica_id)
    simulation.run()
    assert simulation.callers["a"].num_samples == 6 * UNIT
    simulation.settle()


@pytest.mark.parametrize("stage_id", [0, 1])
def test_a_request_that_kills_its_replica_twice_fails_alone(stage_id: int) -> None:
    """Whatever runs beside it, is paused or waits for text is not blamed."""
    simulation = started()
    simulation.add("good", 5)
    simulation.add("poison", 5)
    simulation.add("paused", 5)
    simulation.add("idle", 0, resumable=True)
    simulation.interact("paused", "pause")
    for _ in range(2 * stage_id):
        simulation.turn()
    num_kills = 0
    while num_kills < 2:
        (replica_id,) = stage_replicas(simulation, stage_id)
        simulation.say_hello(replica_id)
        for other in stage_replicas(simulation, 1 - stage_id):
            simulation.receive(other)
        simulation.receive(replica_id)
        simulation.receive(replica_id)
        replica = simulation.replicas[replica_id]
        if "poison" in replica.runnable():
            num_kills += 1
            simulation.kill(replica_id)
        else:
            for request_id in replica.runnable():
                simulation.step(replica_id, request_id)
        simulation.advance(0.1)
    assert error_code(simulation, "poison") == "stage_failed"
    simulation.settle()
    for name in ("good", "paused"):
        assert simulation.callers[name].num_samples == 5 * UNIT


def test_a_replica_that_keeps_losing_the_same_output_fails_the_request() -> None:
    simulation = started()
    simulation.add("a", 2)
    (chunks,) = stage_replicas(simulation, 1)
    for _ in range(100):
        if simulation.callers["a"].terminals:
            break
        for replica_id in list(simulation.replicas):
            simulation.receive(replica_id)
            for request_id in simulation.replicas[replica_id].runnable():
                simulation.step(replica_id, request_id, drop_payload=replica_id == chunks)
    assert error_code(simulation, "a") == "stage_failed"
    simulation.settle()


def test_a_silent_replica_is_evicted_after_the_heartbeat_timeout() -> None:
    simulation = started(pipeline=two_stages(num_replicas=2))
    simulation.add("a", 6)
    simulation.turn()
    bound = simulation.core.pools[0].replica_of("a")
    assert bound is not None
    simulation.replicas[bound.replica_id].is_hung = True
    for _ in range(30):
        simulation.advance(1.0)
        simulation.run()
    assert bound.replica_id not in simulation.core.pools[0].replicas
    assert simulation.callers["a"].num_samples == 6 * UNIT
    simulation.settle()


def test_a_clock_that_jumps_evicts_nobody() -> None:
    simulation = started()
    simulation.advance(1.0)
    simulation.run()
    simulation.advance(3600.0)
    assert simulation.core.is_ready


def test_a_dropped_payload_is_replayed_not_skipped() -> None:
    simulation = started()
    simulation.add("a", 2)
    simulation.turn()
    (chunks,) = stage_replicas(simulation, 1)
    simulation.receive(chunks)
    simulation.step(chunks, "a", drop_payload=True)
    simulation.settle()
    assert simulation.callers["a"].num_samples == 2 * UNIT


def test_a_payload_dropped_at_the_end_does_not_end_the_request_short() -> None:
    simulation = started()
    simulation.add("a", 1)
    while simulation.callers["a"].num_samples < UNIT - CHUNK:
        simulation.turn()
    (chunks,) = stage_replicas(simulation, 1)
    if "a" in simulation.replicas[chunks].requests:
        simulation.step(chunks, "a", drop_payload=True)
    simulation.settle()
    assert simulation.callers["a"].num_samples == UNIT


def test_a_stage_error_fails_its_request_alone() -> None:
    simulation = started()
    simulation.add("bad", 4)
    simulation.add("good", 4)
    simulation.turn()
    simulation.fail_request(stage_replicas(simulation, 1)[0], "bad")
    simulation.run()
    assert error_code(simulation, "bad") == "stage_failed"
    assert simulation.callers["good"].num_samples == 4 * UNIT
    simulation.settle()


def test_a_deadline_fails_a_request_wherever_it_is() -> None:
    simulation = Simulation()
    simulation.add("a", deadline=5.0)
    simulation.advance(4.0)
    assert not simulation.callers["a"].terminals
    simulation.advance(2.0)
    assert error_code(simulation, "a") == "deadline_exceeded"
    simulation.settle()


def test_a_stage_without_replica_fails_its_requests_after_its_deadline() -> None:
    simulation = started(pipeline=two_stages(replica_deadline_s=5.0))
    simulation.kill(stage_replicas(simulation, 0)[0])
    simulation.add("a")
    simulation.advance(4.0)
    assert not simulation.callers["a"].terminals
    simulation.advance(2.0)
    assert error_code(simulation, "a") == "unavailable"


def test_a_stage_that_never_was_ready_is_given_up_at_its_first_failure() -> None:
    simulation = Simulation()
    simulation.kill(stage_replicas(simulation, 0)[0])
    simulation.advance(60.0)
    assert "units" in (simulation.core.failure or "")
    assert stage_replicas(simulation, 0) == []


def test_a_stage_that_keeps_failing_is_given_up_after_max_restarts() -> None:
    simulation = started(config=EngineConfig(max_restarts=3))
    for _ in range(10):
        for replica_id in stage_replicas(simulation, 0):
            simulation.kill(replica_id)
        simulation.advance(40.0)
    assert simulation.core.failure is not None
    assert simulation.core.supervisor.health[0].num_restarts == 3


@pytest.mark.parametrize(
    "wrong", [{"replica_id": "units-0.9"}, {"stage_id": 1}, {"protocol_version": 1}]
)
def test_a_replica_that_is_not_the_one_that_was_started_is_replaced(wrong: dict[str, Any]) -> None:
    simulation = Simulation(two_stages(num_replicas=2))
    impostor, other = stage_replicas(simulation, 0)
    simulation.say_hello(impostor, **wrong)
    assert impostor not in simulation.replicas
    simulation.say_hello(other)
    simulation.advance(5.0)
    assert len(stage_replicas(simulation, 0)) == 2


def test_a_second_hello_changes_nothing() -> None:
    simulation = started(pipeline=two_stages(num_replicas=2))
    simulation.add("a", 4)
    simulation.turn()
    for replica_id in list(simulation.replicas):
        simulation.say_hello(replica_id, pid=2, protocol_version=1)
    pool = simulation.core.pools[0]
    assert {replica.pid for replica in pool.ready()} == {1}
    simulation.settle()
    assert simulation.callers["a"].num_samples == 4 * UNIT


def test_a_hello_of_a_replica_that_is_being_drained_is_not_heard() -> None:
    simulation = started(pipeline=two_stages(num_replicas=2))
    simulation.add("a", 4, data_parallel_rank=1)
    simulation.submit(ScaleMessage(0, 1))
    _, draining = stage_replicas(simulation, 0)
    simulation.say_hello(draining)
    assert len(simulation.core.pools[0].ready()) == 1
    simulation.settle()


def test_bad_requests_in_a_row_do_not_have_the_stage_given_up() -> None:
    """Each takes its replica down, and another one in its trial; nothing else makes output."""
    simulation = started(config=EngineConfig(max_restarts=3))
    for number in range(12):
        name = f"poison{number}"
        simulation.add(name, 5)
        for _ in range(20):
            replicas = stage_replicas(simulation, 0)
            assert replicas, "the stage was given up"
            replica_id = replicas[0]
            simulation.say_hello(replica_id)
            simulation.receive(replica_id)
            simulation.receive(replica_id)
            if name in simulation.replicas[replica_id].runnable():
                simulation.kill(replica_id)
            if simulation.callers[name].terminals:
                break
            simulation.advance(1.0)
        assert error_code(simulation, name) == "stage_failed"
    assert simulation.core.failure is None
    simulation.settle()


@pytest.mark.parametrize("stage_id", [0, 1])
def test_a_step_that_fails_for_several_has_each_tried_alone(stage_id: int) -> None:
    simulation = started()
    simulation.add("a", 4)
    simulation.add("b", 4, num_companions=1)
    for _ in range(2 * stage_id):
        simulation.turn()
    (replica_id,) = stage_replicas(simulation, stage_id)
    simulation.receive(replica_id)
    replica = simulation.replicas[replica_id]
    simulation.fail_step(replica_id, *replica.runnable())
    simulation.receive(replica_id)
    assert set(replica.suspects) >= {"a", "b"}
    simulation.settle()
    for name in ("a", "b"):
        assert simulation.callers[name].num_samples == 4 * UNIT


def test_what_cannot_have_been_in_a_step_is_not_suspected_when_its_replica_dies() -> None:
    simulation = started(config=EngineConfig(max_buffered_audio_s=CHUNK / SAMPLE_RATE))
    simulation.add("slow", 20)
    simulation.callers["slow"].reads = False
    simulation.add("idle", 1, resumable=True)
    simulation.run()
    simulation.add("busy", 3)
    simulation.callers["busy"].reads = False
    (units,), (chunks,) = stage_replicas(simulation, 0), stage_replicas(simulation, 1)
    simulation.receive(units)
    simulation.step(units, "busy")
    simulation.receive(chunks)
    simulation.kill(chunks)
    (chunks,) = stage_replicas(simulation, 1)
    simulation.say_hello(chunks)
    simulation.receive(chunks)
    assert set(simulation.replicas[chunks].requests) >= {"slow", "busy"}
    assert set(simulation.replicas[chunks].suspects) == {"busy"}
    simulation.settle()


def test_a_request_whose_steps_fail_again_and_again_fails() -> None:
    simulation = started()
    simulation.add("a", 4)
    (replica_id,) = stage_replicas(simulation, 0)
    for _ in range(3):
        simulation.receive(replica_id)
        simulation.fail_step(replica_id, "a")
    assert error_code(simulation, "a") == "stage_failed"
    simulation.settle()


def test_draining_ends_what_is_left_at_its_deadline() -> None:
    simulation = started()
    simulation.add("a", 50)
    simulation.turn()
    simulation.submit(DrainMessage(deadline=10.0))
    assert not simulation.core.is_ready
    simulation.advance(5.0)
    assert not simulation.callers["a"].terminals
    simulation.advance(6.0)
    assert error_code(simulation, "a") == "unavailable"
    simulation.settle()


def test_scaling_down_drains_and_scaling_up_starts() -> None:
    simulation = started(pipeline=two_stages(num_replicas=2))
    simulation.add("a", 4)
    simulation.turn()
    simulation.submit(ScaleMessage(0, 1))
    simulation.submit(ScaleMessage(1, 3))
    assert len(stage_replicas(simulation, 1)) == 3
    simulation.settle()
    assert len(stage_replicas(simulation, 0)) == 1
    assert simulation.callers["a"].num_samples == 4 * UNIT


def test_a_resumable_request_takes_segments_until_it_is_closed() -> None:
    simulation = started()
    simulation.add("a", 1, resumable=True)
    simulation.run()
    assert simulation.callers["a"].num_samples == UNIT
    simulation.update("a", 2, final=False)
    simulation.run()
    assert not simulation.callers["a"].terminals
    simulation.update("a", 0, final=True)
    simulation.run()
    assert simulation.callers["a"].num_samples == 3 * UNIT
    simulation.settle()


def test_pause_and_resume_are_acknowledged_and_act() -> None:
    simulation = started()
    simulation.add("a", 4)
    simulation.turn()
    simulation.interact("a", "pause", "p1")
    simulation.run()
    before = simulation.callers["a"].num_samples
    simulation.run()
    assert simulation.callers["a"].num_samples == before < 4 * UNIT
    simulation.interact("a", "resume", "p2")
    simulation.run()
    assert simulation.callers["a"].num_samples == 4 * UNIT
    assert simulation.callers["a"].acks == ["p1", "p2"]
    simulation.settle()


def test_flush_and_update_reach_the_first_stage_in_their_place() -> None:
    simulation = started()
    simulation.add("a", 1, resumable=True)
    simulation.interact("a", "flush", "f")
    simulation.update("a", 1, final=False)
    simulation.run()
    (units,) = stage_replicas(simulation, 0)
    assert simulation.replicas[units].requests["a"].num_flushes == 1
    assert simulation.callers["a"].acks == ["f"]
    simulation.settle()


def test_a_flush_is_replayed_with_the_text_around_it() -> None:
    simulation = started()
    simulation.add("a", 3, resumable=True)
    simulation.update("a", 2, final=False)
    simulation.interact("a", "flush")
    simulation.turn()
    simulation.kill(stage_replicas(simulation, 0)[0])
    simulation.settle()
    assert simulation.callers["a"].num_samples == 5 * UNIT


@pytest.mark.parametrize("kind", ["flush", "update"])
def test_text_controls_are_refused_where_no_more_text_comes(kind: str) -> None:
    simulation = started()
    simulation.add("a", 4)
    simulation.interact("a", kind, "x")
    assert simulation.callers["a"].acks == ["error:x"]
    simulation.settle()


def test_an_interaction_that_comes_after_the_end_is_answered_all_the_same() -> None:
    simulation = started()
    simulation.add("a", 1)
    simulation.run()
    assert simulation.callers["a"].terminals
    simulation.interact("a", "pause", "late")
    assert simulation.callers["a"].acks == ["error:late"]
    simulation.settle()


def test_an_unknown_interaction_is_an_error_that_harms_nothing() -> None:
    simulation = started()
    simulation.add("a", 2)
    simulation.interact("a", "dance", "d")
    simulation.run()
    assert simulation.callers["a"].acks == ["error:d"]
    assert simulation.callers["a"].num_samples == 2 * UNIT
    simulation.settle()


def test_an_interrupt_drops_what_was_not_delivered_and_speech_goes_on_with_new_text() -> None:
    simulation = started()
    simulation.add("a", 10, resumable=True)
    while simulation.callers["a"].num_samples < 2 * CHUNK:
        simulation.turn()
    before = simulation.callers["a"].num_samples
    simulation.interact("a", "interrupt", "i")
    simulation.run()
    assert simulation.callers["a"].num_samples == before
    simulation.update("a", 2, final=True)
    simulation.run()
    assert simulation.callers["a"].num_samples == before + 2 * UNIT
    assert simulation.callers["a"].acks == ["i"]
    simulation.settle()


def test_speech_after_an_interrupt_survives_the_loss_of_its_replicas() -> None:
    simulation = started()
    simulation.add("a", 10, resumable=True)
    while simulation.callers["a"].num_samples < 2 * CHUNK:
        simulation.turn()
    before = simulation.callers["a"].num_samples
    simulation.interact("a", "interrupt")
    simulation.update("a", 3, final=False)
    while simulation.callers["a"].num_samples < before + 2 * CHUNK:
        simulation.turn()
    for replica_id in list(simulation.replicas):
        simulation.kill(replica_id)
    simulation.settle()
    assert simulation.callers["a"].num_samples == before + 3 * UNIT


def test_an_interrupt_ends_a_request_that_takes_no_more_text() -> None:
    simulation = started()
    simulation.add("a", 10)
    while simulation.callers["a"].num_samples < 2 * CHUNK:
        simulation.turn()
    simulation.interact("a", "interrupt", "i")
    (terminal,) = simulation.callers["a"].terminals
    assert isinstance(terminal, OutputMessage)
    assert simulation.callers["a"].acks == ["i"]
    simulation.settle()


def test_the_journal_of_a_long_session_does_not_grow() -> None:
    simulation = started()
    simulation.add("a", 1, resumable=True)
    for _ in range(1000):
        simulation.update("a", 1, final=False)
        simulation.run()
    record = simulation.core._requests["a"]
    assert [len(stage.inputs) for stage in record.stages] == [0, 0]
    simulation.settle()


def test_what_a_paused_session_is_sent_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "MAX_INPUTS", 20)
    simulation = started()
    for name in ("text", "controls", "other"):
        simulation.add(name, 1, resumable=True)
        simulation.run()
    for name in ("text", "controls"):
        simulation.interact(name, "pause")
    for number in range(30):
        if not simulation.callers["text"].terminals:
            simulation.update("text", 1, final=False)
        simulation.interact("controls", "update", f"u{number}")
        simulation.update("other", 1, final=False)
        simulation.run()
    # A segment that finds no room is not lost silently: the request fails. A control is refused.
    (terminal,) = simulation.callers["text"].terminals
    assert isinstance(terminal, ErrorMessage)
    assert (terminal.code, terminal.param) == ("invalid_value", "text")
    assert "input waiting" in terminal.message
    acks = simulation.callers["controls"].acks
    assert [ack for ack in acks if ack.startswith("error")] == [
        f"error:u{n}" for n in range(20, 30)
    ]
    assert simulation.callers["other"].num_samples == 31 * UNIT
    assert len(simulation.core._requests["controls"].stages[0].inputs) == 20
    simulation.settle()


def test_flushes_of_a_paused_session_take_no_room() -> None:
    simulation = started()
    simulation.add("a", 1, resumable=True)
    simulation.run()
    simulation.interact("a", "pause")
    for number in range(100):
        simulation.interact("a", "flush", f"f{number}")
    assert len(simulation.core._requests["a"].stages[0].inputs) <= 1
    assert simulation.callers["a"].acks[-100:] == [f"f{n}" for n in range(100)]
    simulation.settle()


# --- CFG groups ----------------------------------------------------------------------------------


def test_a_group_is_bound_to_one_replica_and_ends_as_one() -> None:
    simulation = started(pipeline=two_stages(num_replicas=3))
    simulation.add("a", 3, num_companions=2)
    for replica_id in simulation.replicas:
        simulation.receive(replica_id)
    holders = [len(r.requests) for r in simulation.replicas.values() if r.stage_id == 0]
    assert sorted(holders) == [0, 0, 3]
    simulation.run()
    assert simulation.callers["a"].num_samples == 3 * UNIT
    simulation.settle()


def deliver_row(simulation: Simulation, request_id: str, *, size: int, finished: bool) -> None:
    """A row of a stage-0 replica that does not step its groups together."""
    (replica_id,) = stage_replicas(simulation, 0)
    payload = {"audio": 1} if size else None
    position = simulation.rows_at.get(request_id, 0)
    simulation.rows_at[request_id] = position + size
    row = OutputRow(request_id, payload, position, size, finished=finished)
    simulation.replicas[replica_id].requests.pop(request_id, None)
    output = StageOutput([row], 1, 1, 0.1)
    simulation.carry_out(simulation.core.handle_replica(replica_id, output, simulation.now))


@pytest.mark.parametrize("order", [["a", "a/0"], ["a/0", "a"]])
def test_a_parent_is_done_only_with_its_companions_output_in_hand(order: list[str]) -> None:
    simulation = started()
    simulation.add("a", 1, num_companions=1)
    simulation.receive(stage_replicas(simulation, 0)[0])
    deliver_row(simulation, order[0], size=1, finished=True)
    simulation.run()
    assert not simulation.callers["a"].terminals
    deliver_row(simulation, order[0], size=1, finished=True)  # a duplicate changes nothing
    deliver_row(simulation, order[1], size=1, finished=True)
    simulation.run()
    assert simulation.callers["a"].num_samples == UNIT
    simulation.settle()


def test_a_companion_that_fails_fails_its_parent_by_name() -> None:
    simulation = started()
    simulation.add("a", 3, num_companions=1)
    simulation.turn()
    simulation.fail_request(stage_replicas(simulation, 0)[0], "a/0")
    (terminal,) = simulation.callers["a"].terminals
    assert isinstance(terminal, ErrorMessage)
    assert "companion 'role0'" in terminal.message
    simulation.settle()


@pytest.mark.parametrize("num_turns", [0, 1, 2, 4])
def test_aborting_a_parent_lets_go_of_its_companions(num_turns: int) -> None:
    simulation = started()
    simulation.add("a", 3, num_companions=2)
    for _ in range(num_turns):
        simulation.turn()
    simulation.abort("a")
    simulation.settle()


def test_a_group_that_is_not_complete_by_its_deadline_fails() -> None:
    simulation = started()
    simulation.add("a", 1, num_companions=1)
    simulation.receive(stage_replicas(simulation, 0)[0])
    deliver_row(simulation, "a", size=1, finished=True)
    for _ in range(29):
        simulation.advance(1.0)
        for replica_id in list(simulation.replicas):
            simulation.receive(replica_id)
    assert not simulation.callers["a"].terminals
    simulation.advance(2.0)
    assert error_code(simulation, "a") == "deadline_exceeded"
    simulation.settle()


def test_a_group_whose_replica_dies_is_replayed_whole() -> None:
    simulation = started(pipeline=two_stages(num_replicas=2))
    simulation.add("a", 6, num_companions=1)
    for _ in range(3):
        simulation.turn()
    bound = simulation.core.pools[0].replica_of("a")
    assert bound is not None
    simulation.kill(bound.replica_id)
    simulation.settle()
    assert simulation.callers["a"].num_samples == 6 * UNIT


def test_companions_outputs_travel_with_their_parents_where_the_next_stage_wants_them() -> None:
    simulation = started(pipeline=two_stages(forward_companions=True))
    simulation.add("a", 2, num_companions=2)
    (units,), (chunks,) = stage_replicas(simulation, 0), stage_replicas(simulation, 1)
    simulation.receive(units)
    simulation.step(units, "a")
    updates = [m for m in simulation.replicas[chunks].data if isinstance(m, StageUpdate)]
    assert updates
    assert updates[0].payload["companions"] == {"role0": {"audio": 1}, "role1": {"audio": 1}}
    simulation.settle()


def test_a_companion_that_ends_without_its_share_fails_the_parent() -> None:
    simulation = started(pipeline=two_stages(forward_companions=True))
    simulation.add("a", 1, num_companions=1)
    simulation.receive(stage_replicas(simulation, 0)[0])
    deliver_row(simulation, "a/0", size=0, finished=True)
    deliver_row(simulation, "a", size=1, finished=True)
    assert error_code(simulation, "a") == "stage_failed"
    simulation.settle()


@pytest.mark.parametrize("final_output_stage_ids", [[1], [0], [0, 1]])
def test_a_group_whose_replica_dies_after_its_parent_finished_ends_once(
    final_output_stage_ids: list[int],
) -> None:
    simulation = started()
    simulation.add(
        "a",
        1,
        num_companions=1,
        final_output_stage_ids=final_output_stage_ids,
        final_stage_id=max(final_output_stage_ids),
    )
    simulation.receive(stage_replicas(simulation, 0)[0])
    deliver_row(simulation, "a", size=1, finished=True)
    simulation.kill(stage_replicas(simulation, 0)[0])
    simulation.settle()


def test_a_paused_group_does_not_run_out_of_time() -> None:
    simulation = started()
    simulation.add("a", 1, num_companions=1)
    simulation.receive(stage_replicas(simulation, 0)[0])
    deliver_row(simulation, "a", size=1, finished=True)
    simulation.interact("a", "pause")
    for _ in range(60):
        simulation.advance(1.0)
        for replica_id in list(simulation.replicas):
            simulation.receive(replica_id)
    assert not simulation.callers["a"].terminals
    simulation.settle()


def test_after_scaling_down_the_lowest_ranks_are_left() -> None:
    simulation = started(pipeline=two_stages(num_replicas=3))
    simulation.add("busy", 5, data_parallel_rank=2)
    simulation.submit(ScaleMessage(0, 1))
    simulation.add("a", 1, data_parallel_rank=0)
    simulation.run()
    assert simulation.callers["a"].num_samples == UNIT
    simulation.settle()


def test_one_replica_that_fails_at_the_first_start_is_replaced_when_another_is_ready() -> None:
    simulation = Simulation(two_stages(num_replicas=2))
    first, second = stage_replicas(simulation, 0)
    simulation.kill(first)
    assert simulation.core.failure is None
    simulation.say_hello(second)
    simulation.advance(5.0)
    assert len(stage_replicas(simulation, 0)) == 2
    simulation.start_all()
    assert simulation.core.is_ready
