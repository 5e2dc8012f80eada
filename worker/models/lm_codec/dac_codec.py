"""DAC, from a checkpoint of transformers or from one in DAC's own format."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import DacConfig, DacModel

from engine.errors import ConfigError
from worker.models.lm_codec.codec import CodecFacts, Place
from worker.models.lm_codec.description import CodecSpec
from worker.models.lm_codec.files import find_file


class DacCodec:
    """A ``Codec``. Where a rate is odd, the last frame lacks some samples at its end."""

    def __init__(self, model: Any, num_codebooks: int, files: list[Path]) -> None:
        self._model = model
        self._num_codebooks = num_codebooks
        self.files = files

    @property
    def facts(self) -> CodecFacts:
        config = self._model.config
        num_codebooks = min(self._num_codebooks, config.n_codebooks)
        return CodecFacts(
            sample_rate=config.sampling_rate,
            frame_samples=config.hop_length,
            codebook_sizes=(config.codebook_size,) * num_codebooks,
            columns=(1,) * num_codebooks,
        )

    @torch.inference_mode()
    def decode(self, codes: torch.Tensor, places: Sequence[Place]) -> torch.Tensor:
        audio: torch.Tensor = self._model.decode(audio_codes=codes.transpose(1, 2)).audio_values
        return audio.float()


def load(spec: CodecSpec, columns: tuple[int, ...], device: torch.device) -> DacCodec:
    if spec.file is None:
        model: Any = DacModel.from_pretrained(spec.model)
        files = [find_file(spec.model, "config.json"), find_file(spec.model, "model.safetensors")]
    else:
        files = [find_file(spec.model, spec.file)]
        model = from_own_format(torch.load(files[0], map_location="cpu", weights_only=True))
    del model.encoder
    return DacCodec(model.eval().to(device), len(columns), files)


def from_own_format(checkpoint: Mapping[str, Any]) -> Any:
    """A DacModel with the decoder and the codebooks of a checkpoint in DAC's own format.

    Raises ``ConfigError`` if it is none.
    """
    try:
        options, weights = checkpoint["metadata"]["kwargs"], checkpoint["state_dict"]
        model = DacModel(_config(options))
        mine = {
            _renamed(key, len(options["decoder_rates"])): value for key, value in _folded(weights)
        }
    except KeyError as error:
        raise ConfigError(f"no checkpoint in DAC's own format: it has no {error}") from error
    wanted = {key for key in model.state_dict() if not key.startswith("encoder.")}
    missing = sorted(wanted - mine.keys())
    if missing:
        raise ConfigError(f"the DAC checkpoint lacks {missing[0]} ({len(missing)} in all)")
    model.load_state_dict({key: mine[key] for key in wanted}, strict=False)
    return model


def _config(options: Mapping[str, Any]) -> DacConfig:
    config = DacConfig(
        encoder_hidden_size=options["encoder_dim"],
        downsampling_ratios=list(options["encoder_rates"]),
        decoder_hidden_size=options["decoder_dim"],
        n_codebooks=options["n_codebooks"],
        codebook_size=options["codebook_size"],
        codebook_dim=options["codebook_dim"],
        sampling_rate=options["sample_rate"],
    )
    config.hidden_size = options.get("latent_dim") or config.hidden_size
    return config


def _folded(weights: Mapping[str, torch.Tensor]) -> list[tuple[str, torch.Tensor]]:
    """Weights as they are used: ``weight_g`` is the length of ``weight_v`` along its first axis."""
    folded = []
    for key, value in weights.items():
        if key.endswith(".weight_v"):
            lengths = value.norm(dim=(1, 2), keepdim=True)
            stem = key.removesuffix("_v")
            folded.append((stem, value * (weights[f"{stem}_g"] / lengths)))
        elif not key.endswith(".weight_g"):
            folded.append((key, value))
    return folded


def _renamed(key: str, num_rates: int) -> str:
    """DAC's name of a weight in transformers.

    DAC's decoder is one list: a convolution, a block per rate, an activation, a convolution.
    """
    match = re.fullmatch(r"decoder\.model\.(\d+)\.(.+)", key)
    if match is None:
        return key
    number, rest = int(match[1]), match[2]
    if 1 <= number <= num_rates:
        return f"decoder.block.{number - 1}.{_renamed_in_block(rest)}"
    names = {0: "conv1", num_rates + 1: "snake1", num_rates + 2: "conv2"}
    return f"decoder.{names[number]}.{rest}"


def _renamed_in_block(rest: str) -> str:
    """A block is an activation, a convolution, and three residual units of four layers each."""
    _, number, *inner = rest.split(".")
    if int(number) < 2:
        return ".".join([("snake1", "conv_t1")[int(number)], *inner])
    layer = ("snake1", "conv1", "snake2", "conv2")[int(inner[1])]
    return ".".join([f"res_unit{int(number) - 1}", layer, *inner[2:]])
