"""Stages that turn codes into sound, each with a codec of the published shape."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks import codec_checkpoints as checkpoints
from engine.messages import Payload
from worker.models.lm_codec.codec import Place, load_codec
from worker.models.lm_codec.codec_stage import CodecStage
from worker.models.lm_codec.description import CodecSpec, Description, Slot, load_description
from worker.models.lm_codec.units import make_unit
from worker.models.lm_codec.windows import WindowCutter
from worker.models.qwen_omni import qwen2_5_code2wav, qwen3_code2wav
from worker.models.qwen_omni.code2wav import Decoder, Piece
from worker.models.qwen_omni.code2wav_stage import Code2WavStage
from worker.models.qwen_omni.codes import pack_codes
from worker.stage_model import StageModel

Codes = NDArray[np.int32]
Samples = NDArray[np.float32]
Write = Callable[[Path, Mapping[str, Any]], None]

SEED = 7
_WINDOW_BLOCKS = 4


class Subject(Protocol):
    """A stage, and its codec without the stage."""

    stage: StageModel
    sample_rate: int
    frame_samples: int

    def draw(self, num_frames: int, seed: int) -> Codes:
        """Random codes int32 [frames, columns]."""
        ...

    def unit(self, codes: Codes) -> Payload:
        """All of a request's codes, as the stage before hands them over."""
        ...

    def decode_whole(self, speeches: Sequence[Codes]) -> list[Samples]:
        """Speeches of equal length, in one batch and without windows: float32 in -1..1."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """``small`` are the changes of shape for a quick run; ``on_cpu``: not hopeless there."""

    write: Write
    build: Callable[[Path, torch.device], Subject]
    small: Mapping[str, Any] = field(default_factory=dict)
    on_cpu: bool = True


class LmCodec:
    """Windows as the language model's stage cuts them from a stream of tokens."""

    def __init__(self, description: Description, device: torch.device) -> None:
        columns = [0] * len(description.codec.codebook_sizes)
        for slot in description.tokens.frame:
            columns[slot.codebook] += 1
        self._codec = load_codec(description.codec, tuple(columns), device)
        self._description = description
        self._device = device
        self.stage: StageModel = CodecStage(self._codec, device)
        self.sample_rate = description.codec.sample_rate
        self.frame_samples = description.codec.frame_samples

    def draw(self, num_frames: int, seed: int) -> Codes:
        facts = self._codec.facts
        sizes = np.repeat(facts.codebook_sizes, facts.columns)
        shape = (num_frames, len(sizes))
        return np.random.default_rng(seed).integers(0, sizes, shape).astype(np.int32)

    def unit(self, codes: Codes) -> Payload:
        cutter = WindowCutter(self._description)
        return make_unit(cutter.feed(codes) + cutter.finish(), seed=SEED, span=(0, 1))

    def decode_whole(self, speeches: Sequence[Codes]) -> list[Samples]:
        codes = torch.from_numpy(np.stack(speeches).astype(np.int64)).to(self._device)
        audio = self._codec.decode(codes, [Place(SEED, 0)] * len(speeches))
        return list(audio.cpu().numpy())


class Code2Wav:
    """Pieces as the decoder plans them."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self.stage: StageModel = Code2WavStage(decoder)
        self.sample_rate = decoder.facts.sample_rate
        self.frame_samples = decoder.facts.frame_samples

    def draw(self, num_frames: int, seed: int) -> Codes:
        facts = self._decoder.facts
        shape = (num_frames, facts.frame_width)
        return np.random.default_rng(seed).integers(0, facts.num_codes, shape).astype(np.int32)

    def unit(self, codes: Codes) -> Payload:
        return {"unit": pack_codes(codes)}

    def decode_whole(self, speeches: Sequence[Codes]) -> list[Samples]:
        voice = self._decoder.find_voice({})
        pieces = [
            Piece(codes=codes, first=0, start=0, stop=len(codes), voice=voice, seed=SEED)
            for codes in speeches
        ]
        return self._decoder.decode(pieces)


def _shipped(name: str) -> Callable[[Path, torch.device], Subject]:
    """A codec as a description that ships with the server has it."""

    def build(folder: Path, device: torch.device) -> Subject:
        spec = load_description(name)
        codec = msgspec.structs.replace(spec.codec, model=str(folder), file=None)
        return LmCodec(msgspec.structs.replace(spec, codec=codec), device)

    return build


def _described(**facts: Any) -> Callable[[Path, torch.device], Subject]:
    """A codec that no description which ships has."""

    def build(folder: Path, device: torch.device) -> Subject:
        codec = CodecSpec(model=str(folder), **facts)
        slots = tuple(Slot(book, 0) for book in range(len(codec.codebook_sizes)))
        spec = load_description("llasa-1b")
        tokens = msgspec.structs.replace(spec.tokens, frame=slots)
        return LmCodec(msgspec.structs.replace(spec, tokens=tokens, codec=codec), device)

    return build


def _qwen3(folder: Path, device: torch.device) -> Subject:
    return Code2Wav(qwen3_code2wav.load_decoder(str(folder), device))


def _qwen2_5(folder: Path, device: torch.device) -> Subject:
    return Code2Wav(qwen2_5_code2wav.load_decoder(str(folder), device, _WINDOW_BLOCKS))


_FSQ_SMALL = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "encoder_hidden_size": 2,
    "quantization_dim": 48,
}
_DIT_SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "head_dim": 16,
    "look_ahead_layers": [1],
    "look_backward_layers": [0, 2],
    "emb_dim": 16,
    "enc_emb_dim": 12,
    "enc_dim": 8,
    "enc_channels": [16, 16, 16, 16, 48],
    "enc_attention_channels": 8,
    "enc_se_channels": 8,
}

KINDS = {
    "SNAC (Orpheus)": Kind(
        write=checkpoints.write_snac,
        build=_shipped("orpheus-3b"),
        small={"encoder_dim": 4, "decoder_dim": 32},
    ),
    "DAC (OuteTTS)": Kind(
        write=checkpoints.write_dac,
        build=_shipped("outetts-0.6b"),
        small={"encoder_hidden_size": 2, "decoder_hidden_size": 32},
    ),
    "X-Codec2 (Llasa)": Kind(
        write=checkpoints.write_xcodec2, build=_shipped("llasa-1b"), small=_FSQ_SMALL
    ),
    "NeuCodec": Kind(
        write=checkpoints.write_neucodec,
        build=_described(
            kind="neucodec",
            sample_rate=24000,
            frame_samples=480,
            codebook_sizes=(65536,),
            left_frames=100,
            right_frames=8,
        ),
        small=_FSQ_SMALL,
    ),
    # Ten seconds to the left are what a layer of its attention sees.
    "Mimi, 8 codebooks": Kind(
        write=checkpoints.write_mimi,
        build=_described(
            kind="mimi",
            sample_rate=24000,
            frame_samples=1920,
            codebook_sizes=(2048,) * 8,
            left_frames=125,
            right_frames=0,
        ),
        small={
            "hidden_size": 32,
            "num_filters": 4,
            "upsample_groups": 32,
            "num_hidden_layers": 1,
            "intermediate_size": 32,
            "num_attention_heads": 2,
            "num_key_value_heads": 2,
            "head_dim": 16,
        },
    ),
    "Qwen3-Omni": Kind(
        write=checkpoints.write_qwen3,
        build=_qwen3,
        small={
            "hidden_size": 16,
            "num_attention_heads": 2,
            "num_key_value_heads": 2,
            "intermediate_size": 24,
            "num_hidden_layers": 2,
            "decoder_dim": 32,
        },
    ),
    # 36 runs through the flow's network, each guided and not.
    f"Qwen2.5-Omni, window_blocks {_WINDOW_BLOCKS}": Kind(
        write=checkpoints.write_qwen2_5,
        build=_qwen2_5,
        small={"dit_config": _DIT_SMALL, "bigvgan_config": {"upsample_initial_channel": 64}},
        on_cpu=False,
    ),
}
