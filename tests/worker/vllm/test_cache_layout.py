"""Blocks are counted as vLLM's own cache manager takes them; what cannot be counted is named."""

from __future__ import annotations

from typing import Any

import pytest

from tests.worker.vllm.cache_specs import BLOCK_SIZE, NUM_BLOCKS, config_of, spec_of
from worker.vllm.cache_layout import CacheLayout

# What vLLM has torch define when it is imported, here for the first time in a whole run.
OLD_SCRIPT = "ignore:`torch.jit.script_method` is deprecated:DeprecationWarning"
pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("default", OLD_SCRIPT)]

FULL, SLIDING, CHUNKED = "FullAttentionSpec", "SlidingWindowSpec", "ChunkedLocalAttentionSpec"


def num_taken(num_tokens: int, specs: list[Any]) -> int:
    """The blocks that vLLM takes for a prompt that is read in one step."""
    from vllm.sampling_params import SamplingParams
    from vllm.v1.core.kv_cache_manager import KVCacheManager
    from vllm.v1.request import Request

    manager = KVCacheManager(config_of(*specs), 512, BLOCK_SIZE, BLOCK_SIZE, enable_caching=False)
    request = Request("r", [1] * num_tokens, SamplingParams(max_tokens=1), None)
    before = manager.block_pool.get_num_free_blocks()
    assert manager.allocate_slots(request, num_tokens) is not None
    return int(before - manager.block_pool.get_num_free_blocks())


@pytest.mark.parametrize(
    "kinds", [(FULL,), (FULL, SLIDING), (FULL, CHUNKED), (SLIDING, FULL, SLIDING)]
)
def test_a_row_takes_as_many_blocks_as_are_counted(kinds: tuple[str, ...]) -> None:
    specs = [spec_of(kind) for kind in kinds]
    layout = CacheLayout.of(config_of(*specs))
    assert layout.other_kinds == ()
    for num_tokens in (1, BLOCK_SIZE, BLOCK_SIZE + 1, 100):
        assert layout.num_blocks(num_tokens) == num_taken(num_tokens, specs) < NUM_BLOCKS


def test_layers_that_differ_in_size_alone_are_one_group() -> None:
    from vllm.v1.kv_cache_interface import UniformTypeKVCacheSpecs

    specs = {"a": spec_of(FULL), "b": spec_of(FULL, num_kv_heads=2)}
    merged = UniformTypeKVCacheSpecs.from_specs(specs)
    assert CacheLayout.of(config_of(merged)) == CacheLayout((BLOCK_SIZE,))


@pytest.mark.parametrize("kind", ["MambaSpec", "CrossAttentionSpec", "SinkFullAttentionSpec"])
def test_what_tokens_alone_do_not_count_is_named(kind: str) -> None:
    spec = spec_of(kind)
    layout = CacheLayout.of(config_of(spec_of(FULL), spec))
    assert layout.other_kinds == (kind,)
    assert layout.block_sizes == (BLOCK_SIZE, spec.block_size)


def test_states_in_a_merged_group_are_found() -> None:
    from vllm.v1.kv_cache_interface import UniformTypeKVCacheSpecs

    merged = UniformTypeKVCacheSpecs.from_specs({"a": spec_of("MambaSpec")})
    assert CacheLayout.of(config_of(merged)).other_kinds == ("MambaSpec",)
