"""How a model's KV cache is divided: known where it was made, and asked for from there."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class CacheLayout:
    """``block_sizes``: tokens per block of each KV cache group.

    Layers of one kind (full attention, or a sliding window) are a group; all groups draw on the
    same blocks. ``has_states``: some layers keep a state (Mamba) rather than keys and values.
    """

    block_sizes: tuple[int, ...]
    has_states: bool

    @classmethod
    def of(cls, kv_cache_config: Any) -> CacheLayout:
        """``kv_cache_config``: vLLM's ``KVCacheConfig``."""
        groups = kv_cache_config.kv_cache_groups
        sizes = tuple(int(group.kv_cache_spec.block_size) for group in groups)
        return cls(sizes, bool(kv_cache_config.has_mamba_layers))

    def num_blocks(self, num_tokens: int) -> int:
        """The most that a row of so many tokens takes: a sliding window may give some back."""
        return sum(-(-num_tokens // size) for size in self.block_sizes)


class CacheLayoutExtension:
    """For ``worker_extension_cls``: lets the front end ask the process that runs the model."""

    model_runner: Any

    def tell_cache_layout(self) -> dict[str, Any]:
        return asdict(CacheLayout.of(self.model_runner.kv_cache_config))


async def ask_cache_layout(engine: Any) -> CacheLayout:
    """The layout of a running ``AsyncLLM``. All of its workers have the same."""
    told = (await engine.collective_rpc("tell_cache_layout"))[0]
    return CacheLayout(tuple(told["block_sizes"]), told["has_states"])
