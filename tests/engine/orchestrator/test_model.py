"""Random histories of the orchestrator's core: whatever happens, nobody is lost or told wrong.

The simulation asserts after each action that no request ends twice and that no chunk is out of
place; at the end, that each request has ended exactly once and that no table holds anything.
"""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from engine.config import EngineConfig
from engine.messages import ScaleMessage
from tests.engine.orchestrator.simulation import CHUNK, SAMPLE_RATE, Simulation, two_stages

NUM_SEQUENCES = 10_000
STEPS_PER_SEQUENCE = 30


class OrchestratorHistory(RuleBasedStateMachine):
    simulation: Simulation

    @initialize(
        num_replicas=st.integers(1, 3),
        max_running=st.sampled_from([1, 2, 50]),
        balance=st.sampled_from(["least_loaded", "round_robin", "random"]),
        forwards=st.booleans(),
    )
    def begin(self, num_replicas: int, max_running: int, balance: str, forwards: bool) -> None:
        config = EngineConfig(
            max_running=max_running,
            max_buffered_audio_s=4 * CHUNK / SAMPLE_RATE,
            max_restarts=1000,
        )
        pipeline = two_stages(
            num_replicas,
            balance=balance,
            replica_deadline_s=500.0,
            forward_companions=forwards,
        )
        self.simulation = Simulation(pipeline, config)
        self.simulation.start_all()
        self.num_added = 0

    # --- callers ---------------------------------------------------------------------------------

    @rule(
        num_units=st.integers(1, 6),
        priority=st.integers(-1, 1),
        resumable=st.booleans(),
        reads=st.booleans(),
        num_companions=st.sampled_from([0, 0, 1, 2]),
        begins_late=st.booleans(),
    )
    def add(
        self,
        num_units: int,
        priority: int,
        resumable: bool,
        reads: bool,
        num_companions: int,
        begins_late: bool,
    ) -> None:
        self.num_added += 1
        request_id = f"r{self.num_added}"
        self.simulation.add(
            request_id,
            num_units,
            priority=priority,
            resumable=resumable,
            num_companions=0 if resumable else num_companions,
            first_stage_id=int(begins_late and not resumable and not num_companions),
        )
        self.simulation.callers[request_id].reads = reads

    @rule(data=st.data(), num_units=st.integers(0, 3), final=st.booleans())
    def update(self, data: st.DataObject, num_units: int, final: bool) -> None:
        request_id = self.pick(data, self.open_requests())
        if request_id is not None:
            self.simulation.update(request_id, num_units, final=final)

    @rule(
        data=st.data(),
        kind=st.sampled_from(["pause", "resume", "flush", "update", "interrupt", "dance"]),
    )
    def interact(self, data: st.DataObject, kind: str) -> None:
        request_id = self.pick(data, self.live_requests())
        if request_id is not None:
            self.simulation.interact(request_id, kind)

    @rule(data=st.data())
    def abort(self, data: st.DataObject) -> None:
        request_id = self.pick(data, list(self.simulation.callers))
        if request_id is not None:
            self.simulation.abort(request_id)

    @rule(data=st.data())
    def read(self, data: st.DataObject) -> None:
        request_id = self.pick(data, self.live_requests())
        if request_id is not None:
            self.simulation.consume(request_id)

    # --- replicas --------------------------------------------------------------------------------

    @rule(data=st.data())
    def receive_data(self, data: st.DataObject) -> None:
        replica_id = self.pick(data, self.replicas())
        if replica_id is not None:
            self.simulation.replicas[replica_id].receive_data()

    @rule(data=st.data())
    def receive_control(self, data: st.DataObject) -> None:
        """Control first: it overtakes the data that was sent before it."""
        replica_id = self.pick(data, self.replicas())
        if replica_id is not None:
            self.simulation.replicas[replica_id].receive_control()

    @rule(data=st.data(), dropped=st.booleans())
    def step(self, data: st.DataObject, dropped: bool) -> None:
        choices = [
            (replica_id, request_id)
            for replica_id in self.replicas()
            for request_id in self.simulation.replicas[replica_id].runnable()
        ]
        choice = self.pick(data, choices)
        if choice is not None:
            self.simulation.step(*choice, drop_payload=dropped)

    @rule()
    def turn(self) -> None:
        self.simulation.turn()

    @rule(data=st.data())
    def kill(self, data: st.DataObject) -> None:
        replica_id = self.pick(data, list(self.simulation.replicas))
        if replica_id is not None:
            self.simulation.kill(replica_id)

    @rule(data=st.data())
    def hang(self, data: st.DataObject) -> None:
        replica_id = self.pick(data, self.replicas())
        if replica_id is not None:
            self.simulation.replicas[replica_id].is_hung = True

    @rule(data=st.data())
    def start(self, data: st.DataObject) -> None:
        replica_id = self.pick(data, self.replicas())
        if replica_id is not None:
            self.simulation.say_hello(replica_id)

    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        choices = [
            (replica_id, request_id)
            for replica_id in self.replicas()
            for request_id in self.simulation.replicas[replica_id].requests
        ]
        choice = self.pick(data, choices)
        if choice is not None:
            self.simulation.fail_request(*choice)

    @rule(data=st.data())
    def fail_step(self, data: st.DataObject) -> None:
        """A step of all that a replica could step now, but in a trial: then it steps one alone."""
        choices = [
            replica_id
            for replica_id in self.replicas()
            if not self.simulation.replicas[replica_id].is_granted
            and self.simulation.replicas[replica_id].runnable()
        ]
        replica_id = self.pick(data, choices)
        if replica_id is not None:
            runnable = self.simulation.replicas[replica_id].runnable()
            self.simulation.fail_step(replica_id, *runnable)

    @rule(stage_id=st.integers(0, 1), num_replicas=st.integers(1, 3))
    def scale(self, stage_id: int, num_replicas: int) -> None:
        self.simulation.submit(ScaleMessage(stage_id, num_replicas))

    @rule(seconds=st.sampled_from([0.1, 1.0, 5.0, 15.0]))
    def wait(self, seconds: float) -> None:
        self.simulation.advance(seconds)

    # --- rules of the test -----------------------------------------------------------------------

    @precondition(lambda self: hasattr(self, "simulation"))
    @invariant()
    def pools_agree(self) -> None:
        for pool in self.simulation.core.pools:
            pool.check_integrity()

    def teardown(self) -> None:
        if hasattr(self, "simulation"):
            self.simulation.settle()

    def live_requests(self) -> list[str]:
        return [rid for rid, caller in self.simulation.callers.items() if not caller.terminals]

    def open_requests(self) -> list[str]:
        callers = self.simulation.callers
        return [rid for rid in self.live_requests() if not callers[rid].is_closed]

    def replicas(self) -> list[str]:
        return [rid for rid, replica in self.simulation.replicas.items() if not replica.is_hung]

    @staticmethod
    def pick(data: st.DataObject, choices: list[Any]) -> Any:
        """One of them, or None where there is none."""
        return data.draw(st.sampled_from(choices)) if choices else None


OrchestratorHistory.TestCase.settings = settings(
    max_examples=NUM_SEQUENCES,
    stateful_step_count=STEPS_PER_SEQUENCE,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestOrchestratorHistory = OrchestratorHistory.TestCase
