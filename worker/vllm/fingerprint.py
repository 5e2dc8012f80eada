"""What decides the bytes of a language-model stage."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from engine.messages import Fingerprint
from engine.pipeline import LlmConfig
from worker.fingerprint import make_fingerprint
from worker.vllm.launch import resolve_checkpoint

_PATTERNS = (
    "config.json",
    "adapter_config.json",
    "*.safetensors",
    "*.bin",
    "*.pt",
    "*.gguf",
    "tokenizer*",
)


def llm_fingerprint(llm: LlmConfig, more_files: Sequence[Path]) -> Fingerprint:
    """The files of the checkpoint, the LoRAs and the adapter. What a hub has counts by its name."""
    files, names = list[Path](), list[str]()
    for model in (resolve_checkpoint(llm.checkpoint), *(lora.path for lora in llm.loras)):
        found = [file for pattern in _PATTERNS for file in sorted(Path(model).glob(pattern))]
        files += found
        if not found:
            names.append(f"{model}@{llm.revision}")
    return make_fingerprint([*files, *more_files], llm.num_threads, " ".join(names))
