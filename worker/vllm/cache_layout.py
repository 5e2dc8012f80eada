"""How a model's KV cache is divided: known where it was made, and asked for from there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

# Of vLLM 0.32: a row's block holds so many of its tokens, and it never has more than it needs.
_COUNTED_KINDS = frozenset(
    {"FullAttentionSpec", "MLAAttentionSpec", "SlidingWindowSpec", "ChunkedLocalAttentionSpec"}
)


@dataclass(frozen=True, slots=True)
class CacheLayout:
    """``block_sizes``: tokens per block of each KV cache group.

    Layers of one kind (full attention, or a sliding window) are a group; all groups draw on the
    same blocks. ``other_kinds``: vLLM's names of those whose blocks tokens alone do not count, such
    as the states of Mamba layers or what an encoder has read; sorted.
    """

    block_sizes: tuple[int, ...]
    other_kinds: tuple[str, ...] = ()

    @classmethod
    def of(cls, kv_cache_config: Any) -> CacheLayout:
        """``kv_cache_config``: vLLM's ``KVCacheConfig``."""
        specs = [group.kv_cache_spec for group in kv_cache_config.kv_cache_groups]
        kinds = {type(layer).__name__ for spec in specs for layer in _layers(spec)}
        sizes = tuple(int(spec.block_size) for spec in specs)
        return cls(sizes, tuple(sorted(kinds - _COUNTED_KINDS)))

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
    return CacheLayout(tuple(told["block_sizes"]), tuple(told["other_kinds"]))


def _layers(spec: Any) -> Iterable[Any]:
    """The specs of a group's layers, where vLLM has merged several into one."""
    merged = getattr(spec, "kv_cache_specs", None)
    return [spec] if merged is None else merged.values()
