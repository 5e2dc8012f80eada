"""Keys and values of requests lie apart, and go back when they are done."""

from __future__ import annotations

import pytest
import torch

from worker.models.qwen_omni.kv_pool import KvPool, KvShape, KvStep

pytestmark = pytest.mark.torch

SHAPE = KvShape(num_layers=2, num_heads=3, head_dim=4, dtype=torch.float32)


def pool_of(num_blocks: int) -> KvPool:
    return KvPool(SHAPE, num_blocks * SHAPE.block_bytes, torch.device("cpu"))


def entries(num_rows: int, num_tokens: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(num_rows, 3, num_tokens, 4, generator=generator)


def test_rows_of_different_lengths_read_what_they_wrote() -> None:
    pool = pool_of(6)
    leases = [pool.borrow(size) for size in (100, 20)]
    assert leases[0] is not None
    assert leases[1] is not None
    for lease, size in zip(leases, (70, 3), strict=True):
        assert lease is not None
        step = KvStep(pool, [lease], size)
        for layer in range(2):
            step.update(entries(1, size, layer), entries(1, size, 9 + layer), layer)
        step.done()
    step = KvStep(pool, [leases[0], leases[1]], 1)
    assert step.positions.tolist() == [[70], [3]]
    assert step.mask.sum(dim=-1).flatten().tolist() == [71, 4]
    new = entries(2, 1, 5)
    keys, values = step.update(new, -new, 1)
    assert keys.shape == (2, 3, 71, 4)
    assert torch.equal(keys[0, :, :70], entries(1, 70, 1)[0])
    assert torch.equal(keys[0, :, 70:], new[0])
    assert torch.equal(values[1, :, :3], entries(1, 3, 10)[0])
    assert torch.equal(values[1, :, 3:4], -new[1])
    step.done()
    assert [lease.length for lease in leases if lease is not None] == [71, 4]


def test_padding_holds_nothing_of_another_request() -> None:
    """Attention weighs it with 0, which leaves a NaN what it is."""
    pool = pool_of(4)
    pool.keys[:] = pool.values[:] = torch.nan
    leases = [lease for size in (100, 20, 20) if (lease := pool.borrow(size)) is not None]
    for lease, size in zip(leases, (70, 3, 2), strict=True):
        step = KvStep(pool, [lease], size)
        step.update(entries(1, size, 1), entries(1, size, 2), 0)
        step.done()
    pool.keys[0, leases[2].slots] = pool.values[0, leases[2].slots] = torch.nan
    step = KvStep(pool, leases, 1)
    both = step.update(entries(3, 1, 3), entries(3, 1, 4), 0)
    assert all(bool(read[:2].isfinite().all()) for read in both)


def test_a_prompt_looks_back_and_not_ahead() -> None:
    pool = pool_of(1)
    lease = pool.borrow(5)
    assert lease is not None
    step = KvStep(pool, [lease], 4)
    assert torch.equal(step.mask[0, 0], torch.ones(4, 4).tril().bool())


def test_memory_is_lent_whole_and_comes_back() -> None:
    pool = pool_of(3)
    assert pool.num_tokens == 192
    first = pool.borrow(65)
    assert first is not None
    assert pool.num_free_tokens == 64
    assert pool.borrow(65) is None
    assert pool.num_free_tokens == 64, "a refusal takes nothing"
    second = pool.borrow(64)
    assert second is not None
    assert not set(first.slots.tolist()) & set(second.slots.tolist())
    pool.give_back(first)
    pool.give_back(first)
    assert pool.num_free_tokens == 128
