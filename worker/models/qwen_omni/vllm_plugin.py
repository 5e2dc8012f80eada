"""What vLLM calls in each of its processes (entry point ``vllm.general_plugins``)."""

from __future__ import annotations

_MODULE = "worker.models.qwen_omni.vllm_thinkers"
_CLASSES = ("Qwen25Thinker", "Qwen3Thinker")


def register() -> None:
    """Make the thinkers known as architectures. Imports neither of them."""
    from vllm import ModelRegistry

    for name in _CLASSES:
        ModelRegistry.register_model(f"Voxloom{name}", f"{_MODULE}:{name}")
