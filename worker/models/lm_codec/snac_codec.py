"""SNAC: codes at several rates, and a decoder that adds noise, here noise that has a seed.

The package's own decoder draws noise from torch's global generator: the same codes would sound
different each time, and chunks would not fit together. Here noise is a function of the unit's seed
and of the sample's place.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from worker.models.lm_codec.codec import CodecFacts, Place
from worker.models.lm_codec.description import CodecSpec
from worker.models.lm_codec.files import find_file

_MASK = 2**64 - 1
# SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
_GOLDEN = 0x9E3779B97F4A7C15
_MIX_1 = 0xBF58476D1CE4E5B9
_MIX_2 = 0x94D049BB133111EB


def normal_at(keys: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """Standard normal float32 values, a function of key and position (int64, broadcast)."""
    z = keys + (positions + 1) * _signed(_GOLDEN)
    z = (z ^ _shifted(z, 30)) * _signed(_MIX_1)
    z = (z ^ _shifted(z, 27)) * _signed(_MIX_2)
    z = z ^ _shifted(z, 31)
    # Box and Muller, with two uniform values of 24 bits, neither of them 0.
    radius, angle = (((_shifted(z, n) & 0xFFFFFF) + 0.5) / 2**24 for n in (40, 16))
    return torch.sqrt(-2 * torch.log(radius)) * torch.cos(2 * torch.pi * angle)


def noise_key(seed: int, layer: int) -> int:
    """Each layer's noise has a key of its own."""
    return _signed((seed ^ ((layer + 1) * _MIX_2)) & _MASK)


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


def _shifted(value: torch.Tensor, num_bits: int) -> torch.Tensor:
    """A logical shift to the right; torch's own keeps the sign."""
    return (value >> num_bits) & ((1 << (64 - num_bits)) - 1)


class SeededNoise(torch.nn.Module):
    """Stands where the package draws noise. ``places`` is set before each decoding.

    ``rate``: samples here per frame.
    """

    def __init__(self, linear: torch.nn.Module, layer: int, rate: int) -> None:
        super().__init__()
        self.linear = linear
        self.layer = layer
        self.rate = rate
        self.places: Sequence[Place] = ()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        keys = [[noise_key(place.seed, self.layer)] for place in self.places]
        starts = [[place.first_frame * self.rate] for place in self.places]
        positions = torch.arange(x.shape[-1], device=x.device) + torch.tensor(
            starts, device=x.device
        )
        noise = normal_at(torch.tensor(keys, device=x.device), positions)
        noisy: torch.Tensor = x + noise[:, None, :].to(x.dtype) * self.linear(x)
        return noisy


class SnacCodec:
    """A ``Codec``. Its frames have one code of the slowest codebook, and more of the others."""

    def __init__(self, model: Any, columns: tuple[int, ...], files: list[Path]) -> None:
        self._model = model
        self._columns = columns
        self.files = files
        self._lock = threading.Lock()
        self._noise: list[SeededNoise] = []
        self._replace_noise()

    @property
    def facts(self) -> CodecFacts:
        model = self._model
        slowest = max(model.vq_strides)
        return CodecFacts(
            sample_rate=model.sampling_rate,
            frame_samples=int(model.hop_length) * slowest,
            codebook_sizes=(model.codebook_size,) * len(model.vq_strides),
            columns=tuple(slowest // stride for stride in model.vq_strides),
        )

    @torch.inference_mode()
    def decode(self, codes: torch.Tensor, places: Sequence[Place]) -> torch.Tensor:
        books = torch.split(codes, list(self._columns), dim=2)
        with self._lock:  # the layers read their places from where this thread put them
            for noise in self._noise:
                noise.places = places
            audio: torch.Tensor = self._model.decode([book.flatten(1) for book in books])
        return audio[:, 0].float()

    def _replace_noise(self) -> None:
        model = self._model
        rate = max(model.vq_strides)
        blocks = [block for block in model.decoder.model if hasattr(block, "block")]
        for layer, (block, stride) in enumerate(zip(blocks, model.decoder_rates, strict=True)):
            rate *= stride
            for index, part in enumerate(block.block):
                if type(part).__name__ == "NoiseBlock":
                    block.block[index] = SeededNoise(part.linear, layer, rate)
                    self._noise.append(block.block[index])


def load(spec: CodecSpec, columns: tuple[int, ...], device: torch.device) -> SnacCodec:
    with warnings.catch_warnings():
        # The package scripts a function when it is imported, which torch 2.13 deprecates.
        warnings.simplefilter("ignore", DeprecationWarning)
        from snac import SNAC
    config, weights = (find_file(spec.model, name) for name in ("config.json", "pytorch_model.bin"))
    model = SNAC.from_config(config)
    model.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
    del model.encoder
    return SnacCodec(model.eval().to(device), columns, [config, weights])
