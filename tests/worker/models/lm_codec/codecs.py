"""Codecs with random weights, small, in the format in which real ones are published."""

from __future__ import annotations

import atexit
import functools
import json
import math
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from transformers import (
    DacConfig,
    DacModel,
    MimiConfig,
    MimiModel,
    NeuCodecConfig,
    NeuCodecModel,
    Wav2Vec2BertConfig,
    Xcodec2Config,
    Xcodec2Model,
)

# Rates and kernels are those of the real ones, since they decide how far a frame reaches; only
# channels, codebooks and layers are fewer.
SNAC_OPTIONS = {
    "sampling_rate": 24000,
    "encoder_dim": 4,
    "encoder_rates": [2, 4, 8, 8],
    "decoder_dim": 32,
    "decoder_rates": [8, 8, 4, 2],
    "attn_window_size": None,
    "codebook_size": 64,
    "codebook_dim": 4,
    "vq_strides": [4, 2, 1],
    "noise": True,
    "depthwise": True,
}
DAC_OPTIONS: dict[str, Any] = {
    "encoder_dim": 2,
    "encoder_rates": [2, 4, 5, 8],
    "decoder_dim": 32,
    "decoder_rates": [8, 5, 4, 2],
    "n_codebooks": 2,
    "codebook_size": 64,
    "codebook_dim": 4,
    "sample_rate": 24000,
}


def enliven(model: torch.nn.Module, gain: float = 1.0, seed: int = 5) -> None:
    """Weights with which a signal keeps its size through the layers: the defaults fade to 0."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim >= 2:
                fan_in = math.prod(weight.shape[1:])
                weight.normal_(0, gain / math.sqrt(fan_in), generator=generator)
            elif name.endswith("bias"):
                weight.normal_(0, 0.05, generator=generator)


# Made once per test run, and removed at its end.
_FOLDER = tempfile.TemporaryDirectory(prefix="voxloom-codecs-")
atexit.register(_FOLDER.cleanup)


@functools.cache
def checkpoint(kind: str) -> Path:
    """The folder of a small codec of that kind."""
    return _SAVERS[kind](Path(_FOLDER.name) / kind)


def save_snac(folder: Path, codebook_size: int = 64) -> Path:
    """As the package's ``from_pretrained`` reads it: config.json and pytorch_model.bin."""
    options = SNAC_OPTIONS | {"codebook_size": codebook_size}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from snac import SNAC
    model = SNAC(**options)
    enliven(model, 0.85)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(options))
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    return folder


def save_dac(folder: Path) -> Path:
    config = DacConfig(
        encoder_hidden_size=2,
        downsampling_ratios=[2, 4, 5, 8],
        decoder_hidden_size=32,
        n_codebooks=2,
        codebook_size=64,
        codebook_dim=4,
        sampling_rate=24000,
    )
    return _save(DacModel(config), folder, gain=0.65)


def save_mimi(folder: Path) -> Path:
    config = MimiConfig(
        hidden_size=32,
        num_filters=4,
        codebook_size=64,
        codebook_dim=8,
        num_quantizers=4,
        vector_quantization_hidden_dimension=8,
        upsample_groups=32,
        num_hidden_layers=1,
        intermediate_size=32,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=16,
        sliding_window=20,
    )
    model: Any = MimiModel(config)
    enliven(model)
    with torch.no_grad():
        for quantizer in (
            *model.quantizer.semantic_residual_vector_quantizer.layers,
            *model.quantizer.acoustic_residual_vector_quantizer.layers,
        ):
            quantizer.codebook.embed_sum.normal_(generator=torch.Generator().manual_seed(7))
    return _save(model, folder, alive=True)


def save_neucodec(folder: Path) -> Path:
    return _save(NeuCodecModel(NeuCodecConfig(**_fsq_options())), folder)


def save_xcodec2(folder: Path) -> Path:
    return _save(Xcodec2Model(Xcodec2Config(**_fsq_options())), folder)


def _fsq_options() -> dict[str, Any]:
    semantic = Wav2Vec2BertConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    return {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "encoder_hidden_size": 2,
        "semantic_model_config": semantic.to_dict(),
        "quantization_dim": 48,
        "quantization_levels": [4, 4, 4],
    }


def _save(model: Any, folder: Path, *, gain: float = 1.0, alive: bool = False) -> Path:
    if not alive:
        enliven(model, gain)
    model.save_pretrained(folder)
    return folder


_SAVERS: dict[str, Callable[[Path], Path]] = {
    "snac": save_snac,
    "snac_24khz": functools.partial(save_snac, codebook_size=4096),
    "dac": save_dac,
    "mimi": save_mimi,
    "neucodec": save_neucodec,
    "xcodec2": save_xcodec2,
}
