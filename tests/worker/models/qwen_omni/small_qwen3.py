"""A Qwen3-Omni with random weights, small, in the format in which the real one is published.

Its talker stops as that of ``small_qwen2_5`` does.
"""

from __future__ import annotations

import atexit
import functools
import json
import tempfile
from pathlib import Path
from typing import Any

import torch
from transformers import Qwen3OmniMoeConfig, Qwen3OmniMoeForConditionalGeneration

WIDTH = 32
NUM_CODES = 64
NUM_GROUPS = 4

LAYER = 1  # whose hidden states the talker gets of sounds
SPEAKERS = {"ethan": 70, "chelsie": 71}
SAMPLING = {"talker_repetition_penalty": 1.3, "talker_max_new_tokens": 120}
IM_START, USER, ASSISTANT, SYSTEM, AUDIO = 260, 261, 262, 263, 280
TEXT_PAD, TEXT_BOS, TEXT_EOS = 290, 291, 292
CODE_PAD, CODE_BOS, CODE_EOS = 64, 65, 66

_FOLDER = tempfile.TemporaryDirectory(prefix="voxloom-omni-")
atexit.register(_FOLDER.cleanup)


def config() -> Qwen3OmniMoeConfig:
    return Qwen3OmniMoeConfig(
        thinker_config={
            "text_config": _TEXT,
            "audio_config": _AUDIO,
            "vision_config": _VISION,
            "audio_token_id": AUDIO,
            "user_token_id": USER,
            "vision_start_token_id": 281,
        },
        talker_config=_TALKER,
        code2wav_config=_CODE2WAV,
        im_start_token_id=IM_START,
        user_token_id=USER,
        assistant_token_id=ASSISTANT,
        system_token_id=SYSTEM,
        tts_pad_token_id=TEXT_PAD,
        tts_bos_token_id=TEXT_BOS,
        tts_eos_token_id=TEXT_EOS,
    )


def _rope() -> dict[str, Any]:
    sections = {"mrope_section": [1, 1, 2], "interleaved": True}
    return {"rope_type": "default", "rope_theta": 1e4, **sections}


_SHAPE = {
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "num_hidden_layers": 2,
}
_TEXT = _SHAPE | {
    "hidden_size": WIDTH,
    "intermediate_size": 48,
    "moe_intermediate_size": 16,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "vocab_size": 300,
    "rope_parameters": _rope(),
}
_AUDIO = {
    "num_mel_bins": 16,
    "encoder_layers": 1,
    "encoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "d_model": 32,
    "n_window": 50,
    "output_dim": WIDTH,
    "downsample_hidden_size": 8,
    "max_source_positions": 100,
}
_VISION = {
    "depth": 1,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_heads": 2,
    "out_hidden_size": WIDTH,
    "deepstack_visual_indexes": [0],
}
_TALKER = {
    "text_config": _SHAPE
    | {
        "hidden_size": 24,
        "intermediate_size": 40,
        "moe_intermediate_size": 16,
        "shared_expert_intermediate_size": 16,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "vocab_size": 1024 + NUM_CODES,
        "rope_parameters": _rope(),
    },
    "code_predictor_config": _SHAPE
    | {
        "hidden_size": 24,
        "intermediate_size": 40,
        "vocab_size": NUM_CODES,
        "num_code_groups": NUM_GROUPS,
    },
    "num_code_groups": NUM_GROUPS,
    "thinker_hidden_size": WIDTH,
    "accept_hidden_layer": LAYER,
    "codec_pad_id": CODE_PAD,
    "codec_bos_id": CODE_BOS,
    "codec_eos_token_id": CODE_EOS,
    "codec_nothink_id": 67,
    "codec_think_bos_id": 68,
    "codec_think_eos_id": 69,
    "audio_token_id": AUDIO,
    "spatial_merge_size": 2,
    "speaker_id": SPEAKERS,
}
_CODE2WAV = {
    "codebook_size": NUM_CODES,
    "num_quantizers": NUM_GROUPS,
    "hidden_size": 16,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "sliding_window": 6,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "decoder_dim": 32,
    "layer_scale_initial_scale": 1.0,
}


@functools.cache
def checkpoint() -> Path:
    path = Path(_FOLDER.name) / "qwen3-omni"
    torch.manual_seed(5)
    model = Qwen3OmniMoeForConditionalGeneration(config()).eval()
    teach_to_stop(model)
    model.save_pretrained(path)
    (path / "generation_config.json").write_text(json.dumps(SAMPLING))
    return path


@torch.no_grad()
def teach_to_stop(model: Any) -> None:
    """Give all weights a size that matters, and the talker a lean to the end behind a text."""
    for weight in model.parameters():
        if weight.ndim > 1:
            weight.copy_(torch.randn_like(weight) / weight[0].numel() ** 0.5)
    model.code2wav.decoder[-1].conv.weight.mul_(0.01)  # else all is clipped
    config, talker = model.config, model.talker
    texts = model.thinker.get_input_embeddings().weight
    texts.copy_(torch.randn_like(texts))
    codes = talker.get_input_embeddings().weight
    codes.copy_(torch.randn_like(codes) / 2)
    texts[config.tts_pad_token_id] *= 3.0
    lean = talker.text_projection(texts[config.tts_pad_token_id])
    talker.codec_head.weight.mul_(2.0)
    eos = config.talker_config.codec_eos_token_id
    talker.codec_head.weight[eos] = 1.5 * lean / lean.norm()


@functools.cache
def reference() -> Any:
    """The whole model, as transformers loads and runs it."""
    return Qwen3OmniMoeForConditionalGeneration.from_pretrained(checkpoint()).eval()
