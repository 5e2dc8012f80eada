"""Codecs with attention in their decoder: Mimi, NeuCodec, X-Codec2, from transformers.

NeuCodec and X-Codec2 attend to the whole window, in both directions: a chunk is what the window
makes of it, near to what the whole unit would make and not equal to it. See docs/lm-codec.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import MimiModel, NeuCodecModel, Xcodec2Model

from worker.models.lm_codec.codec import CodecFacts, Place
from worker.models.lm_codec.description import CodecSpec
from worker.models.lm_codec.files import find_file


class TransformersCodec:
    """A ``Codec`` around a model with ``decode(audio_codes)``, one code per codebook and frame."""

    def __init__(self, model: Any, facts: CodecFacts, files: list[Path]) -> None:
        self._model = model
        self.facts = facts
        self.files = files

    @torch.inference_mode()
    def decode(self, codes: torch.Tensor, places: Sequence[Place]) -> torch.Tensor:
        output = self._model.decode(audio_codes=codes.transpose(1, 2), return_dict=True)
        audio: torch.Tensor = output.audio_values
        return audio.reshape(len(codes), -1).float()


def load_mimi(spec: CodecSpec, columns: tuple[int, ...], device: torch.device) -> TransformersCodec:
    model = MimiModel.from_pretrained(spec.model)
    config = model.config
    num_codebooks = min(len(columns), config.num_quantizers)
    facts = CodecFacts(
        sample_rate=config.sampling_rate,
        frame_samples=config.frame_size,
        codebook_sizes=(config.codebook_size,) * num_codebooks,
        columns=(1,) * num_codebooks,
    )
    return _decoder_only(model, facts, spec, device, "encoder", "encoder_transformer", "downsample")


def load_neucodec(
    spec: CodecSpec, columns: tuple[int, ...], device: torch.device
) -> TransformersCodec:
    model = NeuCodecModel.from_pretrained(spec.model)
    config = model.config
    return _load_fsq(model, config.output_sampling_rate, spec, device)


def load_xcodec2(
    spec: CodecSpec, columns: tuple[int, ...], device: torch.device
) -> TransformersCodec:
    model = Xcodec2Model.from_pretrained(spec.model)
    return _load_fsq(model, model.config.sampling_rate, spec, device)


def _load_fsq(
    model: Any, sample_rate: int, spec: CodecSpec, device: torch.device
) -> TransformersCodec:
    facts = CodecFacts(
        sample_rate=sample_rate,
        frame_samples=model.config.hop_length,
        codebook_sizes=(int(np.prod(model.config.quantization_levels)),),
        columns=(1,),
    )
    encoders = ("semantic_encoder", "semantic_adapter", "acoustic_encoder", "fc_encoder")
    return _decoder_only(model, facts, spec, device, *encoders)


def _decoder_only(
    model: Any, facts: CodecFacts, spec: CodecSpec, device: torch.device, *encoders: str
) -> TransformersCodec:
    """Without the parts that only encoding needs: most of the weights."""
    for name in encoders:
        if getattr(model, name, None) is not None:
            delattr(model, name)
    files = [find_file(spec.model, name) for name in ("config.json", "model.safetensors")]
    return TransformersCodec(model.eval().to(device), facts, files)
