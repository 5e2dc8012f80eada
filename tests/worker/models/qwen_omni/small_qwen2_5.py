"""A Qwen2.5-Omni with random weights, small, in the format in which the real one is published.

Its talker stops: what it reads behind the text leans towards the code that ends the speech, and the
repetition penalty wears down the others, so speech ends some frames behind its text.
"""

from __future__ import annotations

import atexit
import functools
import json
import tempfile
from pathlib import Path
from typing import Any

import torch
from transformers import Qwen2_5OmniConfig, Qwen2_5OmniForConditionalGeneration

WIDTH = 32
NUM_CODES = 72
SPEAKERS = ("Chelsie", "Ethan")
SAMPLING = {"talker_repetition_penalty": 1.3, "talker_top_k": 20, "talker_max_new_tokens": 120}
# Of the text and of the codes, in the order of the real model's.
TEXT_PAD, TEXT_START, TEXT_END, AUDIO = 290, 291, 292, 280
CODE_PAD, CODE_START, CODE_END, CODE_MASK = 72, 73, 74, 76

_FOLDER = tempfile.TemporaryDirectory(prefix="voxloom-omni-")
atexit.register(_FOLDER.cleanup)


def config() -> Qwen2_5OmniConfig:
    return Qwen2_5OmniConfig(
        thinker_config={
            "text_config": _TEXT,
            "audio_config": _AUDIO,
            "vision_config": _VISION,
            "audio_token_index": AUDIO,
            "vision_start_token_id": 281,
            "user_token_id": 10,
        },
        talker_config=_TALKER,
        token2wav_config={"dit_config": _DIT, "bigvgan_config": _VOCODER},
    )


def _rope(*sections: int) -> dict[str, Any]:
    return {"rope_type": "default", "mrope_section": list(sections), "rope_theta": 1e4}


_TEXT = {
    "hidden_size": WIDTH,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 48,
    "vocab_size": 300,
    "rope_parameters": _rope(1, 1, 2),
}
_AUDIO = {
    "num_mel_bins": 16,
    "encoder_layers": 1,
    "encoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "d_model": 32,
    "n_window": 10,
    "output_dim": WIDTH,
    "max_source_positions": 100,
}
_VISION = {
    "depth": 1,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_heads": 2,
    "out_hidden_size": WIDTH,
    "fullatt_block_indexes": [0],
}
_TALKER = {
    "vocab_size": 80,
    "embedding_size": WIDTH,
    "hidden_size": 24,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "audio_token_index": AUDIO,
    "tts_text_pad_token_id": TEXT_PAD,
    "tts_text_start_token_id": TEXT_START,
    "tts_text_end_token_id": TEXT_END,
    "tts_codec_pad_token_id": CODE_PAD,
    "tts_codec_start_token_id": CODE_START,
    "tts_codec_end_token_id": CODE_END,
    "tts_codec_mask_token_id": CODE_MASK,
    "rope_parameters": _rope(2, 3, 3),
}
_DIT = {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "head_dim": 16,
    "emb_dim": 16,
    "num_embeds": NUM_CODES + 1,
    "mel_dim": 20,
    "block_size": 8,
    "look_ahead_layers": [1],
    "look_backward_layers": [0, 2],
    "enc_emb_dim": 12,
    "enc_dim": 8,
    "enc_channels": [16, 16, 16, 16, 48],
    "enc_attention_channels": 8,
    "enc_res2net_scale": 2,
    "enc_se_channels": 8,
}
_VOCODER = {
    "mel_dim": 20,
    "upsample_initial_channel": 64,
    "upsample_rates": [5, 3, 2, 2, 2, 2],
    "upsample_kernel_sizes": [11, 7, 4, 4, 4, 4],
}


@functools.cache
def checkpoint() -> Path:
    path = Path(_FOLDER.name) / "qwen2.5-omni"
    torch.manual_seed(5)
    model = Qwen2_5OmniForConditionalGeneration(config()).eval()
    teach_to_stop(model)
    model.save_pretrained(path)
    speakers = {
        name: {
            "cond": torch.randn(1, 12),
            "ref_mel": torch.randn(1, 30, 20),
            "bos_token": 270 + number,
        }
        for number, name in enumerate(SPEAKERS)
    }
    torch.save(speakers, path / "spk_dict.pt")
    (path / "generation_config.json").write_text(json.dumps(SAMPLING))
    return path


@torch.no_grad()
def teach_to_stop(model: Any) -> None:
    """Give all weights a size that matters, and the talker a lean to the end behind a text."""
    for weight in model.parameters():
        if weight.ndim > 1:
            weight.copy_(torch.randn_like(weight) / weight[0].numel() ** 0.5)
    model.token2wav.code2wav_bigvgan_model.conv_post.weight.mul_(0.01)  # else all is clipped
    config, talker = model.config.talker_config, model.talker
    texts = model.thinker.get_input_embeddings().weight
    texts.copy_(torch.randn_like(texts))
    texts[config.tts_text_pad_token_id] *= 2.0
    codes = talker.get_input_embeddings().weight
    codes.copy_(torch.randn_like(codes))
    lean = talker.thinker_to_talker_proj(texts[config.tts_text_pad_token_id])
    head = talker.codec_head.weight
    head.mul_(2.0)
    head[config.tts_codec_pad_token_id :].mul_(0.1)
    head[config.tts_codec_end_token_id] = 1.43 * lean / lean.norm()


@functools.cache
def reference() -> Any:
    """The whole model, as transformers loads and runs it."""
    return Qwen2_5OmniForConditionalGeneration.from_pretrained(checkpoint()).eval()
