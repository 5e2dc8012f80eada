"""Caches as vLLM describes them, small. vLLM is imported where it is needed: it takes seconds."""

from __future__ import annotations

from typing import Any

BLOCK_SIZE = 16
NUM_BLOCKS = 64
# By the name of vLLM's class: what it takes beside the shape of its keys and values.
ATTENTION: dict[str, dict[str, Any]] = {
    "FullAttentionSpec": {},
    "SlidingWindowSpec": {"sliding_window": BLOCK_SIZE},
    "ChunkedLocalAttentionSpec": {"attention_chunk_size": 2 * BLOCK_SIZE},
    "SinkFullAttentionSpec": {"sink_len": 4},
    "CrossAttentionSpec": {},
}


def spec_of(kind: str, num_kv_heads: int = 1) -> Any:
    """A cache of that kind, of blocks of ``BLOCK_SIZE`` tokens, or a state of each row."""
    import torch
    from vllm.v1 import kv_cache_interface

    spec = getattr(kv_cache_interface, kind)
    if kind == "MambaSpec":
        return spec(block_size=512, shapes=((2 * BLOCK_SIZE, 8),), dtypes=(torch.float32,))
    return spec(
        block_size=BLOCK_SIZE,
        num_kv_heads=num_kv_heads,
        head_size=8,
        dtype=torch.float32,
        **ATTENTION[kind],
    )


def config_of(*specs: Any) -> Any:
    """vLLM's ``KVCacheConfig``. Each spec is a group of layers of its own."""
    from vllm.v1.kv_cache_interface import KVCacheConfig, KVCacheGroupSpec

    groups = [KVCacheGroupSpec([f"layer.{n}"], spec) for n, spec in enumerate(specs)]
    return KVCacheConfig(num_blocks=NUM_BLOCKS, kv_cache_tensors=[], kv_cache_groups=groups)
