"""Whole omni checkpoints with random weights, in the published format, made by transformers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from tests.worker.models.qwen_omni import small_qwen2_5, small_qwen3

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
QWEN3_TOKENS = (
    *SPECIAL_TOKENS[:3],
    "<|audio_pad|>",
    "<|audio_start|>",
    "<|audio_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
ROLES = ("system", "user", "assistant")
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
_QWEN3_TEMPLATE = TEMPLATE.replace(
    "<|audio_bos|><|AUDIO|><|audio_eos|>", "<|audio_start|><|audio_pad|><|audio_end|>"
)
SPEAKERS = ("Chelsie", "Ethan")
WIDTH = 128


def write_qwen25(folder: Path) -> Path:
    """A Qwen2.5-Omni; the same bytes each time."""
    from transformers import Qwen2_5OmniForConditionalGeneration

    ids = _write_tokenizer(folder, SPECIAL_TOKENS, TEMPLATE)
    config = _qwen25_config(ids)
    torch.manual_seed(5)
    model = Qwen2_5OmniForConditionalGeneration(config).float().eval()
    small_qwen2_5.teach_to_stop(model)
    with torch.no_grad():
        # So that some answers end by themselves, and not at once.
        model.thinker.lm_head.weight[ids["<|im_end|>"]] *= 0.75
    model.save_pretrained(folder)
    said = json.loads((folder / "generation_config.json").read_text())
    said |= small_qwen2_5.SAMPLING | {"talker_do_sample": False}
    (folder / "generation_config.json").write_text(json.dumps(said))
    _write_speakers(folder, ids)
    _write_preprocessor(folder)
    return folder


def write_qwen3(folder: Path) -> Path:
    """A Qwen3-Omni; the same bytes each time."""
    from transformers import Qwen3OmniMoeForConditionalGeneration

    ids = _write_tokenizer(folder, QWEN3_TOKENS, _QWEN3_TEMPLATE)
    torch.manual_seed(5)
    model = Qwen3OmniMoeForConditionalGeneration(_qwen3_config(ids)).float().eval()
    small_qwen3.teach_to_stop(model)
    with torch.no_grad():
        model.thinker.lm_head.weight[ids["<|im_end|>"]] *= 0.75
    model.save_pretrained(folder)
    said = small_qwen3.SAMPLING | {"talker_do_sample": False, "eos_token_id": ids["<|im_end|>"]}
    (folder / "generation_config.json").write_text(json.dumps(said))
    _write_preprocessor(folder)
    return folder


def _qwen3_config(ids: dict[str, int]) -> Any:
    from transformers import Qwen3OmniMoeConfig

    small = small_qwen3.config().to_dict()
    thinker, talker = small["thinker_config"], small["talker_config"]
    rope = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [6, 5, 5]}
    thinker["text_config"] |= {
        "hidden_size": WIDTH,
        "intermediate_size": 128,
        "moe_intermediate_size": 64,
        "head_dim": 32,
        "num_hidden_layers": 3,
        "vocab_size": len(ids) + NUM_SPARE,
        "rope_parameters": rope | {"interleaved": True},
        "max_position_embeddings": 2048,
    }
    thinker["audio_config"] |= {
        "num_mel_bins": 128,
        "output_dim": WIDTH,
        "max_source_positions": 1500,
    }
    thinker["vision_config"] |= {"out_hidden_size": WIDTH}
    thinker |= {
        "audio_token_id": ids["<|audio_pad|>"],
        "image_token_id": ids["<|image_pad|>"],
        "video_token_id": ids["<|video_pad|>"],
        "audio_start_token_id": ids["<|audio_start|>"],
        "vision_start_token_id": ids["<|vision_start|>"],
        "user_token_id": ids["user"],
    }
    talker |= {"thinker_hidden_size": WIDTH, "audio_token_id": ids["<|audio_pad|>"]}
    spare = len(ids)
    return Qwen3OmniMoeConfig(
        thinker_config=thinker,
        talker_config=talker,
        code2wav_config=small["code2wav_config"],
        im_start_token_id=ids["<|im_start|>"],
        im_end_token_id=ids["<|im_end|>"],
        user_token_id=ids["user"],
        assistant_token_id=ids["assistant"],
        system_token_id=ids["system"],
        tts_pad_token_id=spare,
        tts_bos_token_id=spare + 1,
        tts_eos_token_id=spare + 2,
    )


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
    small = small_qwen2_5.config().to_dict()
    talker = small["talker_config"] | {
        **marks,
        "embedding_size": WIDTH,
        "tts_text_start_token_id": spare,
        "tts_text_end_token_id": spare + 1,
        "tts_text_pad_token_id": spare + 2,
    }
    return Qwen2_5OmniConfig(
        thinker_config=thinker, talker_config=talker, token2wav_config=small["token2wav_config"]
    )


def _write_tokenizer(folder: Path, special: Sequence[str], template: str) -> dict[str, int]:
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
        additional_special_tokens=list(special),
    )
    # One token each, as in the published ones: the talker looks for them.
    fast.add_tokens(list(ROLES))
    fast.chat_template = template
    fast.save_pretrained(folder)
    ids: dict[str, int] = fast.get_vocab()
    return ids


def _write_speakers(folder: Path, ids: dict[str, int]) -> None:
    generator = torch.Generator().manual_seed(9)
    speakers = {
        name: {
            "bos_token": len(ids) + 3 + number,
            "cond": torch.randn(1, 12, generator=generator),
            "ref_mel": torch.randn(1, 30, 20, generator=generator),
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


def ids_of(folder: Path) -> dict[str, int]:
    """Tokens' ids by name."""
    content = json.loads((folder / "tokenizer.json").read_text())
    ids: dict[str, int] = {token["content"]: token["id"] for token in content["added_tokens"]}
    return ids


CHECKPOINTS = {"qwen2_5-omni": write_qwen25, "qwen3-omni": write_qwen3}
