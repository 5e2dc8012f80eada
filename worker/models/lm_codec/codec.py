"""What the codec stage needs of a codec, and how one is found and loaded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch

from engine.errors import ConfigError
from engine.pipeline import load_object
from worker.checkpoints import check_folder
from worker.failures import one_line
from worker.models.lm_codec.description import CodecSpec

# Each one is loaded only where it is asked for: they come with different packages.
_LOADERS = {
    "snac": "worker.models.lm_codec.snac_codec:load",
    "dac": "worker.models.lm_codec.dac_codec:load",
    "mimi": "worker.models.lm_codec.transformers_codecs:load_mimi",
    "neucodec": "worker.models.lm_codec.transformers_codecs:load_neucodec",
    "xcodec2": "worker.models.lm_codec.transformers_codecs:load_xcodec2",
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a row's first frame is in its unit of speech, and the seed of the unit's noise."""

    seed: int
    first_frame: int


class Codec(Protocol):
    """A decoder of codes."""

    @property
    def facts(self) -> CodecFacts: ...

    @property
    def files(self) -> list[Path]:
        """The files that decide its output."""
        ...

    def decode(self, codes: torch.Tensor, places: Sequence[Place]) -> torch.Tensor:
        """int64 [batch, frames, columns] to float32 [batch, samples] in -1..1.

        Columns are grouped by codebook. Sample i of a row belongs to frame i // frame_samples; a
        codec may leave out some samples of the last frame. Safe under threads.
        """
        ...


@dataclass(frozen=True, slots=True)
class CodecFacts:
    """What a description and a loaded codec must agree on.

    ``columns``: how many codes a frame has of each codebook, in order.
    """

    sample_rate: int
    frame_samples: int
    codebook_sizes: tuple[int, ...]
    columns: tuple[int, ...]


Loader = Callable[[CodecSpec, tuple[int, ...], torch.device], Codec]


def load_codec(spec: CodecSpec, columns: tuple[int, ...], device: torch.device) -> Codec:
    """The codec of a description, whose frames have so many codes of each codebook.

    Raises ``ConfigError`` if its package or its model is missing or broken, or is not what was
    described.
    """
    loader: Loader = load_object(_LOADERS[spec.kind], "codec.kind")
    check_folder(spec.model, "codec.model")
    try:
        codec = loader(spec, columns, device)
    except ConfigError:
        raise
    except Exception as error:  # a broken file has as many kinds of errors as there are readers
        raise ConfigError(
            f"cannot load codec {spec.model!r} ({spec.kind}): {one_line(error)}"
        ) from error
    wanted = CodecFacts(spec.sample_rate, spec.frame_samples, spec.codebook_sizes, columns)
    for name in CodecFacts.__dataclass_fields__:
        found, described = getattr(codec.facts, name), getattr(wanted, name)
        if found != described:
            raise ConfigError(
                f"codec {spec.model!r} is not as described: its {name} is {found}, "
                f"described as {described}"
            )
    return codec


def pick_device(name: str, gpu_memory_fraction: float = 1.0) -> torch.device:
    """``auto`` is the first GPU, or the CPU where there is none. Raises ``ConfigError``.

    ``gpu_memory_fraction`` of the GPU's memory is the most that torch takes in this process: cuDNN
    picks ways to convolve that want no more. What CUDA itself takes comes on top. A CPU has no such
    bound.

    float32 stays float32 there: by default cuDNN rounds what convolutions multiply to the 10 bits
    of TF32, which moved samples by 0.006 of full scale on an H200.
    """
    torch.backends.cudnn.allow_tf32 = False
    if not 0 < gpu_memory_fraction <= 1:
        raise ConfigError(
            f"gpu_memory_fraction must be above 0 and at most 1, got {gpu_memory_fraction:g}"
        )
    device = _find_device(name)
    if device.type == "cuda" and gpu_memory_fraction < 1:
        torch.cuda.set_per_process_memory_fraction(gpu_memory_fraction, device.index)
    return device


def _find_device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ConfigError(f"device must be auto, cpu, cuda or cuda:N, got {name!r}") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError("device is cuda, and torch sees no GPU")
    return device
