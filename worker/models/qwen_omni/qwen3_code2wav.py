"""Qwen3-Omni's code2wav: a transformer that looks back a window, and causal convolutions.

Decodes a speech in pieces, as its codes come. A piece is decoded behind all that it depends on, so
the pieces make the waveform of the whole. (``chunked_decode`` of transformers looks back 25 frames,
and loses the last samples of each of its chunks.)
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import Qwen3OmniMoeCode2Wav, Qwen3OmniMoeConfig

from worker.models.qwen_omni.code2wav import DecoderFacts, Piece, Samples
from worker.models.qwen_omni.speakers import find_speaker
from worker.models.qwen_omni.weights import load_part, weight_files

# Of the published models; their configuration does not say it.
_SAMPLE_RATE = 24_000
# Frames of a piece by the first of them: the first sound comes early, and longer pieces cost less.
_PLAN = ((0, 1), (1, 2), (3, 4), (11, 8), (27, 16))
_KERNEL = 7
_DILATIONS = (1, 3, 9)


class Code2Wav:
    """A ``Decoder``. Pieces of equal shape are decoded as one batch."""

    num_ahead = 0

    def __init__(self, model: Any, speakers: Sequence[str], files: list[Path]) -> None:
        self._model = model
        self._speakers = list(speakers)
        self.files = files
        config = model.config
        frame_samples = int(model.total_upsample)
        self.facts = DecoderFacts(
            sample_rate=_SAMPLE_RATE,
            frame_width=config.num_quantizers,
            num_codes=config.codebook_size,
            frame_samples=frame_samples,
            lag_samples=_lag_samples(config),
        )
        self._sound_frames = _sound_frames(config, frame_samples)
        # A layer looks back at its window, itself included.
        self._look_back: int = config.num_hidden_layers * (config.sliding_window - 1)

    def find_voice(self, prompt: dict[str, Any]) -> str:
        """The codes have the voice; this only checks it."""
        return find_speaker(prompt.get("voice"), self._speakers)

    def first_needed(self, start: int) -> int:
        return max(0, self._first_sound(start) - self._look_back)

    def next_stop(self, start: int, num_known: int, *, is_last: bool) -> int | None:
        size = next(size for first, size in reversed(_PLAN) if start >= first)
        if start + size <= num_known:
            return start + size
        return num_known if is_last else None

    def decode(self, pieces: Sequence[Piece]) -> list[Samples]:
        alike: dict[tuple[int, int], list[int]] = defaultdict(list)
        for place, piece in enumerate(pieces):
            alike[len(piece.codes), piece.stop - self._first_sound(piece.start)].append(place)
        decoded: dict[int, Samples] = {}
        for (_, num_sound), places in alike.items():
            batch = [pieces[place] for place in places]
            decoded |= zip(places, self._decode(batch, num_sound), strict=True)
        return [decoded[place] for place in range(len(pieces))]

    @torch.inference_mode()
    def _decode(self, pieces: Sequence[Piece], num_sound: int) -> list[Samples]:
        """Pieces with as many codes each, whose last ``num_sound`` frames are turned into sound."""
        model, facts = self._model, self.facts
        codes = torch.from_numpy(np.stack([piece.codes for piece in pieces]).astype(np.int64))
        offsets = model.code_offset.to(model.device)
        embedded = model.code_embedding(codes.to(model.device).transpose(1, 2) + offsets).mean(1)
        hidden = model.pre_transformer(inputs_embeds=embedded).last_hidden_state
        sound = hidden[:, -num_sound:].transpose(1, 2)
        for blocks in model.upsample:
            for block in blocks:
                sound = block(sound)
        for block in model.decoder:
            sound = block(sound)
        audio = sound.clamp(min=-1, max=1)[:, 0].float().cpu().numpy()
        return [
            row[facts.position(piece.start) - (piece.stop - num_sound) * facts.frame_samples :]
            for row, piece in zip(audio, pieces, strict=True)
        ]

    def _first_sound(self, start: int) -> int:
        return max(0, start - self._sound_frames)


def _lag_samples(config: Any) -> int:
    """What is missing at the end: each transposed convolution drops its last stride of output."""
    lag = 0
    for rate in config.upsample_rates:
        lag = (lag + 1) * rate
    return lag


def _sound_frames(config: Any, frame_samples: int) -> int:
    """How many frames the convolutions look back from a piece's first sample, the lag included.

    Sums the reach of each layer in units of its own rate.
    """
    rate, reach = 1, 0.0
    for factor in config.upsampling_ratios:
        rate *= factor
        reach += (_KERNEL - 1) / rate
    reach += (_KERNEL - 1) / rate
    for factor in config.upsample_rates:
        reach += 1 / rate
        rate *= factor
        reach += (_KERNEL - 1) * sum(_DILATIONS) / rate
    reach += (_KERNEL - 1) / rate
    return math.ceil(reach + _lag_samples(config) / frame_samples)


def load_decoder(checkpoint: str, device: torch.device) -> Code2Wav:
    """The code2wav of a checkpoint, a folder or a hub id. Raises ``ConfigError``."""
    config = Qwen3OmniMoeConfig.from_pretrained(checkpoint)
    model = load_part(
        checkpoint,
        Qwen3OmniMoeCode2Wav,
        config.code2wav_config,
        "code2wav",
        dtype=torch.float32,
        device=device,
    )
    return Code2Wav(
        model, list(config.talker_config.speaker_id), weight_files(checkpoint, "code2wav.")
    )
