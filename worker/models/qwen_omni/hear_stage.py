"""The stage that hears: the sounds of a request become embeddings for the thinker.

It runs the omni model's own audio encoder, in torch. Each request is one unit, of all its sounds; a
sound is encoded by itself, so what it becomes depends on no other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray

from engine.errors import ConfigError
from engine.messages import Fingerprint, Payload, StageRequest, StageUpdate
from worker.fingerprint import make_fingerprint
from worker.models.lm_codec.codec import pick_device
from worker.models.qwen_omni.adapter import SAMPLE_RATE
from worker.models.qwen_omni.sounds import KEY, pack_sounds
from worker.models.qwen_omni.weights import load_part, weight_files
from worker.rows import UnitStage
from worker.stage_model import RowStatus, StageContext

_PART = "thinker.audio_tower"
# Silence behind a sound, so that its last frames see what they would see in a longer recording.
_TAIL_SAMPLES = 800


class HearOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``checkpoint``: a folder or a hub id. ``device``: auto, cpu, cuda or cuda:N.

    ``gpu_memory_fraction``: above 0, at most 1; see ``pick_device``. ``dtype``: torch's name.
    """

    checkpoint: str
    device: str = "auto"
    gpu_memory_fraction: float = 1.0
    dtype: str = "auto"


@dataclass(slots=True)
class _Listening:
    """A request. ``is_done`` when its only unit has been made."""

    clips: list[NDArray[np.int16]]
    was_sent: bool
    is_done: bool = False

    @property
    def has_work(self) -> bool:
        return not self.is_done

    def status(self) -> RowStatus:
        position = int(bool(self.clips))
        return RowStatus(finished=self.is_done, end_position=position)


class AudioEncoder:
    """Samples to embeddings."""

    def __init__(self, extractor: Any, tower: Any, files: Sequence[Path]) -> None:
        """``extractor`` makes spectra of samples, ``tower`` embeddings of spectra."""
        self._extractor = extractor
        self._tower = tower
        self.files = list(files)

    @torch.inference_mode()
    def encode(self, clip: NDArray[np.int16]) -> NDArray[np.float32]:
        """int16 [samples] at 16 kHz to float32 [tokens, width of the thinker]."""
        spectrum = self._spectrum(clip.astype(np.float32) / 32768.0).to(self._tower.device)
        lengths = torch.tensor([spectrum.shape[1]], device=self._tower.device)
        output = self._tower(spectrum, feature_lens=lengths)
        sound: NDArray[np.float32] = output.last_hidden_state.float().cpu().numpy()
        return sound

    def _spectrum(self, samples: NDArray[np.float32]) -> torch.Tensor:
        """float32 [mels, frames], without the silence that is put behind it."""
        hop = self._extractor.hop_length
        padded = -(-(len(samples) + _TAIL_SAMPLES) // hop) * hop
        features = self._extractor(
            samples,
            sampling_rate=SAMPLE_RATE,
            padding="max_length",
            max_length=padded,
            truncation=False,
            return_attention_mask=True,
            return_tensors="pt",
        )
        spectrum: torch.Tensor = features["input_features"][0]
        return spectrum[:, features["attention_mask"][0].bool()]


class HearStage(UnitStage[_Listening]):
    """One request and step after the other: a sound of five minutes is a second's work."""

    output_name = KEY

    def __init__(self, encoder: AudioEncoder) -> None:
        super().__init__()
        self._encoder = encoder

    def add(self, request: StageRequest) -> None:
        # Behind another stage it reads the prompt as the caller wrote it.
        clips = request.prompt.get("clips", [])
        self._rows[request.request_id] = _Listening(clips, request.skip_position > 0)

    def update(self, update: StageUpdate) -> None:
        """The stages before it have nothing to tell: what is to be heard comes with the request."""
        if update.payload or not update.final:
            raise ValueError("what is to be heard comes with the request")

    def next_unit(self, row: _Listening) -> Payload | None:
        row.is_done = True
        if row.was_sent or not row.clips:
            return None
        return pack_sounds([self._encoder.encode(clip) for clip in row.clips])

    def fingerprint(self) -> Fingerprint:
        return make_fingerprint(self._encoder.files)


def load(context: StageContext) -> HearStage:
    """The stage, with the encoder's weights. Raises ``ConfigError``."""
    options = context.read_options(HearOptions)
    device = pick_device(options.device, options.gpu_memory_fraction)
    return HearStage(load_encoder(options.checkpoint, options.dtype, device))


def load_encoder(checkpoint: str, dtype: str, device: torch.device) -> AudioEncoder:
    """The encoder of a checkpoint. Raises ``ConfigError``."""
    from transformers import AutoConfig, WhisperFeatureExtractor

    try:
        config = AutoConfig.from_pretrained(checkpoint)
        extractor = WhisperFeatureExtractor.from_pretrained(checkpoint)
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read {checkpoint!r}: {error}") from error
    tower = load_part(
        checkpoint,
        _tower_class(config.model_type),
        config.thinker_config.audio_config,
        _PART,
        dtype=dtype,
        device=device,
    )
    return AudioEncoder(extractor, tower, weight_files(checkpoint))


def _tower_class(model_type: str) -> Any:
    from transformers.models.qwen2_5_omni.modeling_qwen2_5_omni import Qwen2_5OmniAudioEncoder
    from transformers.models.qwen3_omni_moe.modeling_qwen3_omni_moe import (
        Qwen3OmniMoeAudioEncoder,
    )

    towers = {
        "qwen2_5_omni": Qwen2_5OmniAudioEncoder,
        "qwen3_omni_moe": Qwen3OmniMoeAudioEncoder,
    }
    if model_type not in towers:
        known = ", ".join(towers)
        raise ConfigError(f"the checkpoint must be one of {known}, got {model_type!r}")
    return towers[model_type]
