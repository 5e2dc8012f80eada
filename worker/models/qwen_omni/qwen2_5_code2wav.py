"""Qwen2.5-Omni's token2wav: flow matching to a mel spectrogram, and BigVGAN.

Decodes a speech whole, when its last code is known. Its attention sees the block before and the
block after, and each of its 36 evaluations (9 steps of Runge-Kutta) looks so much further: the
first sample depends on the last code of half a minute. Whatever is decoded in windows is another
waveform than the one that transformers makes.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import Qwen2_5OmniConfig, Qwen2_5OmniToken2WavModel

from engine.errors import StageFailedError
from worker.models.qwen_omni.code2wav import DecoderFacts, Piece, Samples
from worker.models.qwen_omni.speakers import Speaker, find_speaker, load_speakers, speakers_file
from worker.models.qwen_omni.weights import load_part, weight_files

# Of the published models; their configuration does not say it.
_SAMPLE_RATE = 24_000


class Token2Wav:
    """A ``Decoder`` of whole speeches, one after the other as transformers does."""

    def __init__(self, model: Any, speakers: dict[str, Speaker], files: list[Path]) -> None:
        self._model = model
        self._speakers = speakers
        self.files = files
        config = model.config.dit_config
        mel_samples = int(np.prod(model.config.bigvgan_config.upsample_rates))
        self.facts = DecoderFacts(
            sample_rate=_SAMPLE_RATE,
            frame_width=1,
            num_codes=config.num_embeds + 1,
            frame_samples=config.repeats * mel_samples,
        )
        self._max_frames = config.max_position_embeddings // config.repeats
        # The noise comes from torch's own generator, which all threads share.
        self._noise = threading.Lock()

    def find_voice(self, prompt: dict[str, Any]) -> str:
        return find_speaker(prompt.get("voice"), list(self._speakers))

    def first_needed(self, start: int) -> int:
        return start

    def next_stop(self, start: int, num_known: int, *, is_last: bool) -> int | None:
        return num_known if is_last else None

    def decode(self, pieces: Sequence[Piece]) -> list[Samples]:
        return [self._decode(piece) for piece in pieces]

    @torch.inference_mode()
    def _decode(self, piece: Piece) -> Samples:
        if len(piece.codes) > self._max_frames:
            raise StageFailedError(f"the speech has more than {self._max_frames} frames")
        device = self._model.device
        speaker = self._speakers[piece.voice]
        devices = [device] if device.type == "cuda" else []
        with self._noise, torch.random.fork_rng(devices):
            torch.manual_seed(piece.seed)
            audio = self._model(
                torch.from_numpy(piece.codes[:, 0].astype(np.int64))[None].to(device),
                conditioning=speaker.conditioning.to(device),
                reference_mel=speaker.reference_mel.to(device),
            )
        samples: Samples = audio.reshape(-1).float().cpu().numpy()
        return samples


def load_decoder(checkpoint: str, device: torch.device) -> Token2Wav:
    """The token2wav of a checkpoint, a folder or a hub id. Raises ``ConfigError``."""
    config = Qwen2_5OmniConfig.from_pretrained(checkpoint).token2wav_config
    kind = Qwen2_5OmniToken2WavModel
    model = load_part(checkpoint, kind, config, "token2wav", dtype=torch.float32, device=device)
    files = [*weight_files(checkpoint), speakers_file(checkpoint)]
    return Token2Wav(model, load_speakers(checkpoint), files)
