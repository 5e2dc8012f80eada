"""Qwen2.5-Omni's token2wav: flow matching to a mel spectrogram, and BigVGAN.

Decodes a speech whole, when its last code is known, unless it is told to decode in windows. Its
attention sees the block before and the block after, and each of its 36 evaluations (9 steps of
Runge-Kutta) looks so much further: the first sample depends on the last code of half a minute. So
what is decoded in windows is another waveform than that of the whole, the nearer to it the more a
window has around its core.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import Qwen2_5OmniConfig, Qwen2_5OmniToken2WavModel
from transformers.models.qwen2_5_omni.modeling_qwen2_5_omni import RungeKutta4ODESolver

from engine.errors import StageFailedError
from worker.models.qwen_omni.code2wav import DecoderFacts, Piece, Samples
from worker.models.qwen_omni.speakers import Speaker, find_speaker, load_speakers, speakers_file
from worker.models.qwen_omni.weights import load_part, weight_files

# Of the published models; their configuration does not say it.
_SAMPLE_RATE = 24_000
# As transformers' token2wav has them: the points in time, and the guidance.
_NUM_POINTS = 10
_GUIDANCE = 0.5
# Blocks around a window's core. BigVGAN reaches about 35 mel frames to each side, one and a half
# blocks; the rest is for the flow, whose network sees two blocks back and one ahead.
_LEFT_BLOCKS = 4
_RIGHT_BLOCKS = 3


class Token2Wav:
    """A ``Decoder`` of whole speeches, or of windows with a core of ``window_blocks``."""

    def __init__(
        self, model: Any, speakers: dict[str, Speaker], files: list[Path], window_blocks: int
    ) -> None:
        self._model = model
        self._speakers = speakers
        self.files = files
        config = model.config.dit_config
        self._repeats: int = config.repeats
        self._mel_dim: int = config.mel_dim
        mel_samples = int(np.prod(model.config.bigvgan_config.upsample_rates))
        self.facts = DecoderFacts(
            sample_rate=_SAMPLE_RATE,
            frame_width=1,
            num_codes=config.num_embeds + 1,
            frame_samples=config.repeats * mel_samples,
        )
        self._max_frames = config.max_position_embeddings // config.repeats
        # Blocks of a window must be those of the whole.
        block: int = config.block_size // config.repeats
        self._core = window_blocks * block
        self._left = _LEFT_BLOCKS * block if window_blocks else 0
        self.num_ahead = _RIGHT_BLOCKS * block if window_blocks else 0

    def find_voice(self, prompt: dict[str, Any]) -> str:
        return find_speaker(prompt.get("voice"), list(self._speakers))

    def first_needed(self, start: int) -> int:
        return max(0, start - self._left) if self._core else start

    def next_stop(self, start: int, num_known: int, *, is_last: bool) -> int | None:
        if self._core and start + self._core + self.num_ahead <= num_known:
            return start + self._core
        if not is_last:
            return None
        return min(start + self._core, num_known) if self._core else num_known

    def decode(self, pieces: Sequence[Piece]) -> list[Samples]:
        """Those of one voice and length as one batch."""
        alike: dict[tuple[str, int], list[int]] = defaultdict(list)
        for place, piece in enumerate(pieces):
            alike[piece.voice, len(piece.codes)].append(place)
        decoded: dict[int, Samples] = {}
        for places in alike.values():
            batch = [pieces[place] for place in places]
            decoded |= zip(places, self._decode(batch), strict=True)
        return [decoded[place] for place in range(len(pieces))]

    @torch.inference_mode()
    def _decode(self, pieces: Sequence[Piece]) -> list[Samples]:
        if len(pieces[0].codes) > self._max_frames:
            raise StageFailedError(f"the speech has more than {self._max_frames} frames")
        device = self._model.device
        codes = torch.from_numpy(np.stack([piece.codes[:, 0] for piece in pieces])).long()
        noise = torch.stack([self._noise(piece) for piece in pieces])
        mel = self._flow(codes.to(device), noise.to(device), self._speakers[pieces[0].voice])
        audio = self._model.code2wav_bigvgan_model(mel).reshape(len(pieces), -1).float().numpy()
        size = self.facts.frame_samples
        return [
            row[(piece.start - piece.first) * size : (piece.stop - piece.first) * size]
            for row, piece in zip(audio, pieces, strict=True)
        ]

    def _noise(self, piece: Piece) -> torch.Tensor:
        """Of a frame the same in each window: [mel frames, mels]."""
        end = piece.first + len(piece.codes)
        drawn = -(-end // self._core) * self._core if self._core else end
        generator = torch.Generator().manual_seed(piece.seed)
        noise = torch.randn(drawn * self._repeats, self._mel_dim, generator=generator)
        return noise[piece.first * self._repeats : end * self._repeats]

    def _flow(self, codes: torch.Tensor, noise: torch.Tensor, speaker: Speaker) -> torch.Tensor:
        """Noise [rows, mel frames, mels] to mel spectrograms [rows, mels, mel frames]."""
        network = self._model.code2wav_dit_model
        num_rows, num_frames = noise.shape[:2]
        voice = speaker.conditioning.reshape(1, 1, -1).expand(num_rows, num_frames, -1)
        reference = speaker.reference_mel.expand(num_rows, -1, -1).to(noise.device)
        voice = voice.to(noise.device)

        def velocity(time: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
            output = network(
                hidden_states=state,
                speaker_embedding=voice,
                condition_vector=reference,
                quantized_code=codes,
                time_step=time,
                apply_cfg=True,
            )
            guided, unguided = output.chunk(2, dim=0)
            blended: torch.Tensor = guided + _GUIDANCE * (guided - unguided)
            return blended

        points = torch.linspace(0, 1, _NUM_POINTS, device=noise.device)
        points = 1 - torch.cos(torch.pi / 2 * points)  # more of them near the noise
        solver = RungeKutta4ODESolver(function=velocity, initial_value=noise)
        path: torch.Tensor = solver.integrate(points)
        return path[-1].transpose(1, 2)


def load_decoder(checkpoint: str, device: torch.device, window_blocks: int = 0) -> Token2Wav:
    """The token2wav of a checkpoint, a folder or a hub id. Raises ``ConfigError``."""
    config = Qwen2_5OmniConfig.from_pretrained(checkpoint).token2wav_config
    kind = Qwen2_5OmniToken2WavModel
    model = load_part(checkpoint, kind, config, "token2wav", dtype=torch.float32, device=device)
    files = [*weight_files(checkpoint, "token2wav."), speakers_file(checkpoint)]
    return Token2Wav(model, load_speakers(checkpoint), files, window_blocks)
