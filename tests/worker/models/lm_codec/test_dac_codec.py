"""DAC from a checkpoint in its own format: the same audio as a decoder with DAC's own layers."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from torch import nn

from engine.errors import ConfigError
from tests.worker.models.lm_codec.codecs import DAC_OPTIONS, enliven
from tests.worker.models.lm_codec.describing import of_kind
from worker.models.lm_codec.codec import Place, load_codec
from worker.models.lm_codec.dac_codec import from_own_format

pytestmark = pytest.mark.torch


def normed(layer: nn.Module) -> nn.Module:
    """With ``weight_g`` and ``weight_v``, the names in DAC's checkpoints."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        made: nn.Module = torch.nn.utils.weight_norm(layer)
    return made


class Snake(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.linspace(0.5, 1.5, channels).reshape(1, channels, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.sin(self.alpha * x) ** 2 / (self.alpha + 1e-9)


class Residual(nn.Module):
    def __init__(self, channels: int, dilation: int) -> None:
        super().__init__()
        wide = nn.Conv1d(channels, channels, 7, dilation=dilation, padding=3 * dilation)
        narrow = nn.Conv1d(channels, channels, 1)
        self.block = nn.Sequential(Snake(channels), normed(wide), Snake(channels), normed(narrow))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        added: torch.Tensor = x + self.block(x)
        return added


class Block(nn.Module):
    def __init__(self, channels: int, rate: int) -> None:
        super().__init__()
        upsampling = nn.ConvTranspose1d(
            channels, channels // 2, 2 * rate, stride=rate, padding=math.ceil(rate / 2)
        )
        units = [Residual(channels // 2, dilation) for dilation in (1, 3, 9)]
        self.block = nn.Sequential(Snake(channels), normed(upsampling), *units)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.block(x)
        return made


class Decoder(nn.Module):
    """Codebooks and decoder under the names of DAC's checkpoints."""

    def __init__(self, latent_dim: int) -> None:
        super().__init__()
        channels = DAC_OPTIONS["decoder_dim"]
        books = [
            nn.ModuleDict(
                {
                    "in_proj": normed(nn.Conv1d(latent_dim, 4, 1)),
                    "out_proj": normed(nn.Conv1d(4, latent_dim, 1)),
                    "codebook": nn.Embedding(64, 4),
                }
            )
            for _ in range(2)
        ]
        self.quantizer = nn.ModuleDict({"quantizers": nn.ModuleList(books)})
        layers: list[nn.Module] = [normed(nn.Conv1d(latent_dim, channels, 7, padding=3))]
        for rate in DAC_OPTIONS["decoder_rates"]:
            layers.append(Block(channels, rate))
            channels //= 2
        layers += [Snake(channels), normed(nn.Conv1d(channels, 1, 7, padding=3)), nn.Tanh()]
        self.decoder = nn.ModuleDict({"model": nn.Sequential(*layers)})

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        """int64 [batch, frames, 2] to float32 [batch, samples]."""
        z = torch.zeros(())
        books: Any = self.quantizer["quantizers"]
        for number, book in enumerate(books):
            z = z + book["out_proj"](book["codebook"](codes[:, :, number]).transpose(1, 2))
        audio: torch.Tensor = self.decoder["model"](z)[:, 0]
        return audio


@pytest.mark.parametrize("latent_dim", [32, 20])
def test_a_checkpoint_in_its_own_format_gives_its_own_audio(
    tmp_path: Path, latent_dim: int
) -> None:
    reference = Decoder(latent_dim)
    enliven(reference, 0.6)
    weights = dict(reference.named_parameters())
    for name, weight in weights.items():
        if name.endswith("weight_g"):  # a gain of its own, not the length that weight_v has
            lengths = weights[name.removesuffix("g") + "v"].norm(dim=(1, 2), keepdim=True)
            weight.data.copy_(1.1 * lengths)
    options = DAC_OPTIONS | ({"latent_dim": latent_dim} if latent_dim != 32 else {})
    checkpoint = {"metadata": {"kwargs": options}, "state_dict": reference.state_dict()}
    torch.save(checkpoint, tmp_path / "weights.pth")
    spec = msgspec.structs.replace(
        of_kind("dac", tmp_path, left=12, right=12).codec, file="weights.pth"
    )
    codec = load_codec(spec, (1, 1), torch.device("cpu"))
    codes = torch.randint(0, 64, (2, 30, 2), generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        expected = reference(codes)
    assert expected.abs().max() > 0.05
    assert torch.allclose(codec.decode(codes, [Place(0, 0)] * 2), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("checkpoint", "message"),
    [
        ({}, "no checkpoint in DAC's own format: it has no 'metadata'"),
        ({"metadata": {"kwargs": DAC_OPTIONS}, "state_dict": {}}, "lacks decoder.block.0.conv_t1"),
    ],
)
def test_another_file_is_refused(checkpoint: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        from_own_format(checkpoint)
