"""Checkpoints of codecs with random weights, made on the spot: the published shapes, no hub.

Only parts that a stage deletes before it decodes, the encoders, are smaller than they are.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from transformers import (
    DacConfig,
    DacModel,
    MimiConfig,
    MimiModel,
    NeuCodecConfig,
    NeuCodecModel,
    Qwen2_5OmniConfig,
    Qwen2_5OmniToken2WavModel,
    Qwen3OmniMoeCode2Wav,
    Qwen3OmniMoeConfig,
    Wav2Vec2BertConfig,
    Xcodec2Config,
    Xcodec2Model,
)

Options = Mapping[str, Any]

# config.json of hubertsiuzdak/snac_24khz.
_SNAC = {
    "sampling_rate": 24000,
    "encoder_dim": 48,
    "encoder_rates": [2, 4, 8, 8],
    "decoder_dim": 1024,
    "decoder_rates": [8, 8, 4, 2],
    "attn_window_size": None,
    "codebook_size": 4096,
    "codebook_dim": 8,
    "vq_strides": [4, 2, 1],
    "noise": True,
    "depthwise": True,
}
# config.json of ibm-research/DAC.speech.v1.0, with the two codebooks of its 1.5 kbit/s weights.
_DAC = {
    "encoder_hidden_size": 64,
    "downsampling_ratios": [2, 4, 5, 8],
    "decoder_hidden_size": 1536,
    "n_codebooks": 2,
    "codebook_size": 1024,
    "codebook_dim": 8,
    "sampling_rate": 24000,
}
_QWEN2_5_SPEAKER = "Chelsie"
_REFERENCE_MEL_FRAMES = 300  # 3 s of the speaker


def write_snac(folder: Path, changes: Options) -> None:
    """As the package's own loader reads it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from snac import SNAC
    options = _SNAC | dict(changes)
    model = _filled(SNAC(**options), gain=0.85)
    (folder / "config.json").write_text(json.dumps(options))
    torch.save(model.state_dict(), folder / "pytorch_model.bin")


def write_dac(folder: Path, changes: Options) -> None:
    _filled(DacModel(DacConfig(**(_DAC | dict(changes)))), gain=0.65).save_pretrained(folder)


def write_mimi(folder: Path, changes: Options) -> None:
    """The published shape is that of the library's defaults."""
    model = _filled(MimiModel(MimiConfig(**changes)))
    quantizer = model.quantizer
    for books in (
        quantizer.semantic_residual_vector_quantizer,
        quantizer.acoustic_residual_vector_quantizer,
    ):
        for layer in books.layers:
            layer.codebook.embed_sum.normal_()
    model.save_pretrained(folder)


def write_neucodec(folder: Path, changes: Options) -> None:
    """The published shape is that of the library's defaults."""
    config = NeuCodecConfig(**_short_encoder(changes))
    _filled(NeuCodecModel(config)).save_pretrained(folder)


def write_xcodec2(folder: Path, changes: Options) -> None:
    """The published shape is that of the library's defaults."""
    config = Xcodec2Config(**_short_encoder(changes))
    _filled(Xcodec2Model(config)).save_pretrained(folder)


def write_qwen3(folder: Path, changes: Options) -> None:
    """The library's defaults are the published shape of Qwen3-Omni's code2wav."""
    config = Qwen3OmniMoeConfig(
        code2wav_config=dict(changes), talker_config={"speaker_id": {"ethan": 0}}
    )
    model = _filled(Qwen3OmniMoeCode2Wav(config.code2wav_config))
    model.decoder[-1].conv.weight.data.mul_(0.01)  # else all is clipped
    _save_part(model, "code2wav", config, folder)


def write_qwen2_5(folder: Path, changes: Options) -> None:
    """The library's defaults are the published shape of Qwen2.5-Omni's token2wav."""
    config = Qwen2_5OmniConfig(token2wav_config=dict(changes))
    dit = config.token2wav_config.dit_config
    _save_part(
        _filled(Qwen2_5OmniToken2WavModel(config.token2wav_config)), "token2wav", config, folder
    )
    speaker = {
        "bos_token": 0,
        "cond": torch.randn(1, dit.enc_emb_dim),
        "ref_mel": torch.randn(1, _REFERENCE_MEL_FRAMES, dit.mel_dim),
    }
    torch.save({_QWEN2_5_SPEAKER: speaker}, folder / "spk_dict.pt")


def _short_encoder(changes: Options) -> dict[str, Any]:
    """One of the semantic encoder's 24 layers: it has most of the weights, and decodes nothing."""
    width = changes.get("quantization_dim", 2048) - changes.get("hidden_size", 1024)
    semantic = Wav2Vec2BertConfig(hidden_size=width, num_hidden_layers=1, num_attention_heads=2)
    return {"semantic_model_config": semantic.to_dict(), **changes}


@torch.no_grad()
def _filled(model: Any, gain: float = 1.0) -> Any:
    """Weights with which a signal keeps about its size through the layers, and does not fade."""
    generator = torch.Generator().manual_seed(5)
    for name, weight in model.named_parameters():
        if weight.ndim >= 2:
            fan_in = math.prod(weight.shape[1:])
            weight.normal_(0, gain / math.sqrt(fan_in), generator=generator)
        elif name.endswith("bias"):
            weight.normal_(0, 0.05, generator=generator)
    return model.eval()


def _save_part(model: Any, prefix: str, config: Any, folder: Path) -> None:
    """As a whole checkpoint that has nothing but this part."""
    weights = {f"{prefix}.{name}": value.contiguous() for name, value in model.state_dict().items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    config.save_pretrained(folder)
