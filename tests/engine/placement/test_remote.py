"""Matching wanted replicas with workers that joined."""

from __future__ import annotations

import msgspec
import pytest

from engine.messages import PROTOCOL_VERSION
from engine.pipeline import PipelineConfig, StageConfig
from engine.placement.remote import RemotePlacement
from engine.placement.spec import (
    JoinAccepted,
    JoinAnswer,
    JoinQueued,
    JoinRefused,
    JoinRequest,
    ReplicaSpec,
)

PIPELINE = PipelineConfig(
    name="p",
    description="d",
    stages=(
        StageConfig(name="near", model="m:load"),
        StageConfig(name="far", model="m:load", placement="remote"),
    ),
)


class Workers:
    """The far end: who is connected, and what each was told."""

    def __init__(self) -> None:
        self.gone: set[bytes] = set()
        self.answers: dict[bytes, list[JoinAnswer]] = {}
        self.stopped: list[str] = []
        self.joined: list[str] = []
        self.placement = RemotePlacement(
            PIPELINE, self.answer, self.stopped.append, self.joined.append
        )

    def answer(self, identity: bytes, answer: JoinAnswer) -> bool:
        if identity in self.gone:
            return False
        self.answers.setdefault(identity, []).append(answer)
        return True

    def join(self, identity: bytes, stage: str = "far", version: int = PROTOCOL_VERSION) -> None:
        self.placement.join(
            identity, msgspec.msgpack.encode(JoinRequest(stage, "host", 1, version))
        )

    def replica_of(self, identity: bytes) -> str | None:
        accepted = [a for a in self.answers.get(identity, ()) if isinstance(a, JoinAccepted)]
        assert len(accepted) <= 1
        return accepted[0].spec.replica_id if accepted else None

    def refusal(self, identity: bytes) -> str:
        (answer,) = self.answers[identity]
        assert isinstance(answer, JoinRefused)
        return answer.reason


def spec(replica_id: str) -> ReplicaSpec:
    return ReplicaSpec(replica_id, 1, 0, PIPELINE, "tcp://h:1", "tcp://h:2", 30.0)


@pytest.fixture
def workers() -> Workers:
    return Workers()


def test_a_wanted_replica_waits_for_a_worker(workers: Workers) -> None:
    workers.placement.start(spec("far-0"))
    assert workers.joined == []

    workers.join(b"a")

    assert workers.replica_of(b"a") == "far-0"
    assert workers.joined == ["far-0"]


def test_a_worker_that_is_too_many_stands_by_for_the_next_replica(workers: Workers) -> None:
    workers.join(b"a")
    assert isinstance(workers.answers[b"a"][-1], JoinQueued)
    assert workers.joined == []

    workers.placement.start(spec("far-0"))

    assert workers.replica_of(b"a") == "far-0"


def test_a_worker_that_has_gone_is_passed_over(workers: Workers) -> None:
    workers.join(b"a")
    workers.join(b"b")
    workers.gone.add(b"a")

    workers.placement.start(spec("far-0"))

    assert workers.replica_of(b"b") == "far-0"
    assert workers.joined == ["far-0"]


def test_workers_that_come_and_go_leave_nothing(workers: Workers) -> None:
    for number in range(100):
        workers.join(b"%d" % number)
        workers.gone.add(b"%d" % number)
    workers.join(b"last")

    assert list(workers.placement._standing_by["far"]) == [b"last"]


def test_a_replica_that_is_not_wanted_any_more_takes_no_worker(workers: Workers) -> None:
    workers.placement.start(spec("far-0"))
    workers.placement.kill("far-0")

    workers.join(b"a")

    assert workers.replica_of(b"a") is None
    assert workers.stopped == []


def test_kill_and_stop_tell_the_worker_once(workers: Workers) -> None:
    for number in range(2):
        workers.join(b"%d" % number)
        workers.placement.start(spec(f"far-{number}"))
    workers.placement.kill("far-0")
    workers.placement.kill("far-0")
    workers.placement.kill("never heard of")
    workers.placement.stop()

    assert workers.stopped == ["far-0", "far-1"]


def test_a_stage_that_takes_no_workers_is_refused_with_those_that_do(workers: Workers) -> None:
    workers.join(b"a", stage="near")
    workers.join(b"b", stage="nowhere")

    assert workers.refusal(b"a") == "stage 'near' takes no remote workers; those that do: far"
    assert "'nowhere'" in workers.refusal(b"b")


def test_another_version_is_refused_even_with_fields_unknown_here(workers: Workers) -> None:
    offer = {"join": "request", "stage": "far", "host": "h", "pid": 1, "protocol_version": 99}
    workers.placement.join(b"a", msgspec.msgpack.encode(offer | {"new": 1}))

    assert f"version {PROTOCOL_VERSION}" in workers.refusal(b"a")
    assert "version 99" in workers.refusal(b"a")


@pytest.mark.parametrize("frame", [b"", b"\xff", b"hello", msgspec.msgpack.encode({"join": "x"})])
def test_what_is_no_offer_is_refused(frame: bytes, workers: Workers) -> None:
    workers.placement.join(b"a", frame)

    assert workers.refusal(b"a") == "that was no request to join"
