"""Keys and values of a talker: one pool of fixed size, lent to requests in blocks.

A request borrows at its start all that it can ever need, so that one that has begun never waits for
memory. Rows of different lengths are read as one padded batch; what a mask hides is the row's own,
since a NaN that is weighed with 0 is still one: none may come from another request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

_BLOCK_TOKENS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class KvShape:
    """What one token takes: ``num_layers`` times a key and a value [num_heads, head_dim]."""

    num_layers: int
    num_heads: int
    head_dim: int
    dtype: torch.dtype

    @property
    def block_bytes(self) -> int:
        per_token = 2 * self.num_layers * self.num_heads * self.head_dim * self.dtype.itemsize
        return per_token * _BLOCK_TOKENS


@dataclass(slots=True)
class KvLease:
    """Blocks of one request. ``slots`` int64 [capacity] is where its tokens lie in the pool."""

    blocks: list[int]
    slots: torch.Tensor
    length: int = 0


@dataclass(slots=True)
class KvPool:
    """``memory_bytes`` of keys and values, at least one block of them."""

    shape: KvShape
    memory_bytes: int
    device: torch.device
    keys: torch.Tensor = field(init=False)
    values: torch.Tensor = field(init=False)
    _free: list[int] = field(init=False)

    def __post_init__(self) -> None:
        shape = self.shape
        num_blocks = max(1, self.memory_bytes // shape.block_bytes)
        sizes = (shape.num_layers, num_blocks * _BLOCK_TOKENS, shape.num_heads, shape.head_dim)
        self.keys = torch.zeros(sizes, dtype=shape.dtype, device=self.device)
        self.values = torch.zeros(sizes, dtype=shape.dtype, device=self.device)
        self._free = list(range(num_blocks))

    @property
    def num_tokens(self) -> int:
        """How many tokens fit in all."""
        return self.keys.shape[1]

    @property
    def num_free_tokens(self) -> int:
        return len(self._free) * _BLOCK_TOKENS

    def borrow(self, num_tokens: int) -> KvLease | None:
        """Room for so many tokens, or None where there is not so much now."""
        num_blocks = -(-num_tokens // _BLOCK_TOKENS)
        if num_blocks > len(self._free):
            return None
        blocks = [self._free.pop() for _ in range(num_blocks)]
        starts = torch.tensor(blocks, dtype=torch.int64) * _BLOCK_TOKENS
        slots = (starts[:, None] + torch.arange(_BLOCK_TOKENS)).reshape(-1)
        return KvLease(blocks, slots.to(self.device))

    def give_back(self, lease: KvLease) -> None:
        self._free += lease.blocks
        lease.blocks = []


class KvStep:
    """One forward pass over rows that each add ``num_new`` tokens: what transformers calls a cache.

    ``positions`` int64 [rows, num_new] count from 0 in each row; ``mask`` bool
    [rows, 1, num_new, longest] is True where a token may look. Call ``done`` when it has run.
    """

    def __init__(self, pool: KvPool, leases: Sequence[KvLease], num_new: int) -> None:
        self._pool = pool
        self._leases = leases
        self._num_new = num_new
        ends = [lease.length + num_new for lease in leases]
        self._written = torch.stack(
            [lease.slots[end - num_new : end] for lease, end in zip(leases, ends, strict=True)]
        )
        places = torch.arange(max(ends), device=pool.device)
        self._read = torch.stack(
            [
                lease.slots[places.clamp(max=end - 1)]
                for lease, end in zip(leases, ends, strict=True)
            ]
        )
        starts = torch.tensor([lease.length for lease in leases], device=pool.device)
        self.positions = starts[:, None] + torch.arange(num_new, device=pool.device)
        self.mask = (places <= self.positions[:, :, None])[:, None]

    def update(
        self, keys: torch.Tensor, values: torch.Tensor, layer: int, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Keep new keys and values [rows, heads, num_new, head_dim] of a layer; all of the rows'.

        Called by the attention of transformers, once a layer.
        """
        both = []
        for kept, new in ((self._pool.keys[layer], keys), (self._pool.values[layer], values)):
            kept[self._written] = new.transpose(1, 2)
            both.append(kept[self._read].transpose(1, 2))
        return both[0], both[1]

    def get_seq_length(self, _layer: int = 0) -> int:
        """Asked for where positions are not given; they always are."""
        return self._leases[0].length

    def done(self) -> None:
        for lease in self._leases:
            lease.length += self._num_new
