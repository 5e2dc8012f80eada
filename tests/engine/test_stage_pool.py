"""Bindings of requests to replicas."""

from __future__ import annotations

import pytest

from engine.messages import Fingerprint
from engine.pipeline import BalancePolicy, StageConfig
from engine.stage_pool import Replica, ReplicaState, StagePool


def pool_of(num_replicas: int, balance: BalancePolicy = "least_loaded") -> StagePool:
    pool = StagePool(0, StageConfig(name="s", model="m:m", balance=balance))
    for rank in range(num_replicas):
        pool.add(Replica(f"r{rank}", rank, 0.0, ReplicaState.READY))
    return pool


def test_the_least_loaded_replica_is_chosen_and_ties_go_to_the_lowest_rank() -> None:
    pool = pool_of(3)
    bound = [pool.bind(f"q{i}") for i in range(4)]
    assert [r.rank for r in bound if r] == [0, 1, 2, 0]
    pool.release("q1")
    chosen = pool.bind("q9")
    assert chosen is not None
    assert chosen.rank == 1


def test_round_robin_takes_turns() -> None:
    pool = pool_of(3, "round_robin")
    ranks = [r.rank for i in range(6) if (r := pool.bind(f"q{i}"))]
    assert sorted(ranks) == [0, 0, 1, 1, 2, 2]


def test_random_reaches_all_replicas() -> None:
    pool = pool_of(3, "random")
    assert {r.rank for i in range(60) if (r := pool.bind(f"q{i}"))} == {0, 1, 2}


@pytest.mark.parametrize("state", [ReplicaState.STARTING, ReplicaState.DRAINING])
def test_only_ready_replicas_are_bound(state: ReplicaState) -> None:
    pool = pool_of(1)
    pool.replicas["r0"].state = state
    assert pool.bind("q") is None


def test_evicting_a_replica_names_its_requests_and_frees_them() -> None:
    pool = pool_of(1)
    pool.bind("b")
    pool.bind("a")
    assert pool.evict("r0").bound == {"a", "b"}
    assert pool.num_bound == 0
    pool.check_integrity()


def test_releasing_twice_is_harmless() -> None:
    pool = pool_of(1)
    pool.bind("a")
    assert pool.release("a") is not None
    assert pool.release("a") is None
    pool.check_integrity()


def test_the_next_rank_fills_gaps() -> None:
    pool = pool_of(3)
    pool.evict("r1")
    assert pool.next_rank() == 1


def test_a_replica_with_the_same_fingerprint_is_preferred_even_if_it_has_more_to_do() -> None:
    pool = pool_of(3)
    like = Fingerprint("model", "avx512", {}, 1)
    pool.replicas["r1"].fingerprint = like
    for number in range(3):
        pool.bind(f"busy{number}", rank=1)
    chosen = pool.bind("a", like=like)
    other = pool.bind("b", like=Fingerprint("model", "neon", {}, 1))
    assert chosen is not None
    assert other is not None
    assert (chosen.rank, other.rank) == (1, 0)
