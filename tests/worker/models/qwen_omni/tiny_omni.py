"""Whole omni checkpoints with random weights, in the published format, made by transformers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

# Names and order of the published tokenizers; the ids are smaller than theirs.
SPECIAL_TOKENS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|AUDIO|>",
    "<|audio_bos|>",
    "<|audio_eos|>",
    "<|vision_bos|>",
    "<|vision_eos|>",
    "<|IMAGE|>",
    "<|VIDEO|>",
)
# The ids behind them have no text: the talker's own marks.
NUM_SPARE = 6
# As published, without images and videos.
TEMPLATE = (
    "{% for message in messages %}"
    "{% if loop.first and message['role'] != 'system' %}"
    "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n{% endif %}"
    "<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}"
    "{% else %}{% for content in message['content'] %}"
    "{% if content['type'] == 'audio' %}<|audio_bos|><|AUDIO|><|audio_eos|>"
    "{% elif 'text' in content %}{{ content['text'] }}{% endif %}"
    "{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPEAKERS = ("Chelsie", "Ethan")
CODEC_VOCAB = 128
WIDTH = 128


def write_qwen25(folder: Path) -> Path:
    """A Qwen2.5-Omni; the same bytes each time."""
    from transformers import Qwen2_5OmniForConditionalGeneration

    ids = _write_tokenizer(folder)
    config = _qwen25_config(ids)
    torch.manual_seed(5)
    model = Qwen2_5OmniForConditionalGeneration(config).float().eval()
    model.save_pretrained(folder)
    _write_speakers(folder, ids)
    _write_preprocessor(folder)
    return folder


def _qwen25_config(ids: dict[str, int]) -> Any:
    from transformers import Qwen2_5OmniConfig

    rope = {"rope_type": "default", "mrope_section": [4, 6, 6], "rope_theta": 1000000.0}
    marks = {
        "audio_token_index": ids["<|AUDIO|>"],
        "image_token_index": ids["<|IMAGE|>"],
        "video_token_index": ids["<|VIDEO|>"],
        "audio_start_token_id": ids["<|audio_bos|>"],
        "audio_end_token_id": ids["<|audio_eos|>"],
        "vision_start_token_id": ids["<|vision_bos|>"],
        "vision_end_token_id": ids["<|vision_eos|>"],
    }
    shape: dict[str, Any] = {
        "hidden_size": WIDTH,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 2048,
        "initializer_range": 0.3,
    }
    thinker = {
        **marks,
        "eos_token_id": ids["<|im_end|>"],
        "bos_token_id": ids["<|im_start|>"],
        "pad_token_id": ids["<|endoftext|>"],
        "user_token_id": 10,
        "initializer_range": 0.3,
        "text_config": {
            **shape,
            "rope_parameters": dict(rope),
            "vocab_size": len(ids) + NUM_SPARE,
            "tie_word_embeddings": False,
            "eos_token_id": ids["<|im_end|>"],
        },
        "audio_config": {
            "num_mel_bins": 128,
            "encoder_layers": 2,
            "encoder_attention_heads": 2,
            "encoder_ffn_dim": 64,
            "d_model": 64,
            "n_window": 20,
            "output_dim": WIDTH,
            "initializer_range": 0.1,
        },
        "vision_config": {
            "depth": 1,
            "hidden_size": 32,
            "intermediate_size": 32,
            "num_heads": 2,
            "out_hidden_size": WIDTH,
            "fullatt_block_indexes": [0],
        },
    }
    spare = len(ids)
    talker = {
        **shape,
        **marks,
        "hidden_size": 64,
        "embedding_size": WIDTH,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 32,
        "rope_parameters": dict(rope),
        "vocab_size": CODEC_VOCAB,
        "tts_codec_pad_token_id": CODEC_VOCAB - 10,
        "tts_codec_start_token_id": CODEC_VOCAB - 9,
        "tts_codec_end_token_id": CODEC_VOCAB - 8,
        "tts_codec_mask_token_id": CODEC_VOCAB - 6,
        "tts_text_start_token_id": spare,
        "tts_text_end_token_id": spare + 1,
        "tts_text_pad_token_id": spare + 2,
    }
    token2wav = {
        "dit_config": {
            "hidden_size": 64,
            "num_hidden_layers": 3,
            "num_attention_heads": 2,
            "head_dim": 32,
            "emb_dim": 32,
            "block_size": 24,
            "look_ahead_layers": [1],
            "look_backward_layers": [0, 2],
            "num_embeds": CODEC_VOCAB,
            "mel_dim": 20,
            "enc_emb_dim": 16,
            "enc_dim": 16,
            "enc_channels": [16, 16, 16, 16, 48],
            "enc_attention_channels": 8,
            "enc_se_channels": 8,
        },
        "bigvgan_config": {"mel_dim": 20, "upsample_initial_channel": 64},
    }
    return Qwen2_5OmniConfig(
        thinker_config=thinker, talker_config=talker, token2wav_config=token2wav
    )


def _write_tokenizer(folder: Path) -> dict[str, int]:
    """A token for each byte, and the special ones; their ids by name."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {char: index for index, char in enumerate(alphabet)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=list(SPECIAL_TOKENS),
    )
    fast.chat_template = TEMPLATE
    fast.save_pretrained(folder)
    ids: dict[str, int] = fast.get_vocab()
    return ids


def _write_speakers(folder: Path, ids: dict[str, int]) -> None:
    generator = torch.Generator().manual_seed(9)
    speakers = {
        name: {
            "bos_token": len(ids) + 3 + number,
            "cond": torch.randn(1, 16, generator=generator),
            "ref_mel": torch.randn(1, 60, 20, generator=generator),
        }
        for number, name in enumerate(SPEAKERS)
    }
    torch.save(speakers, folder / "spk_dict.pt")


def _write_preprocessor(folder: Path) -> None:
    """The part of it that hears."""
    content = {
        "feature_extractor_type": "WhisperFeatureExtractor",
        "feature_size": 128,
        "sampling_rate": 16000,
        "hop_length": 160,
        "n_fft": 400,
        "chunk_length": 300,
        "n_samples": 4800000,
        "nb_max_frames": 30000,
        "padding_side": "right",
        "padding_value": 0.0,
        "dither": 0.0,
        "return_attention_mask": True,
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(content))
