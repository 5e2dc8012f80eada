"""What decides the bytes of a language-model stage."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from engine.messages import Fingerprint
from engine.pipeline import LlmConfig
from worker.fingerprint import make_fingerprint
from worker.vllm.launch import resolve_checkpoint

_PATTERNS = ("config.json", "*.safetensors", "*.bin", "*.pt", "*.gguf", "tokenizer*")


def llm_fingerprint(llm: LlmConfig, more_files: Sequence[Path]) -> Fingerprint:
    """The checkpoint's files and the adapter's. A model of a hub counts by its name alone."""
    checkpoint = resolve_checkpoint(llm.checkpoint)
    folder = Path(checkpoint)
    files = [file for pattern in _PATTERNS for file in sorted(folder.glob(pattern))]
    name = f"{checkpoint}@{llm.revision}" if not files else ""
    return make_fingerprint([*files, *more_files], llm.num_threads, name)
