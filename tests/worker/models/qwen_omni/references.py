"""What transformers makes of a whole checkpoint, part by part."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

Message = dict[str, Any]
# Qwen3's talker gets its prompt as embeddings, and has a penalty for codes that come again.
PENALTY_OF_CODES = "ignore:Passing `repetition_penalty` with `inputs_embeds`:UserWarning"


@dataclass(frozen=True, slots=True)
class Thinking:
    """Of the prompt and the answer: token ids, embeddings and hidden states as generated."""

    prompt_ids: list[int]
    answer_ids: list[int]
    embeddings: NDArray[np.float32]
    hidden: NDArray[np.float32]


@functools.cache
def load_reference(folder: Path) -> Any:
    from transformers import AutoModelForTextToWaveform

    return AutoModelForTextToWaveform.from_pretrained(folder, dtype=torch.float32).eval()


@functools.cache
def _tokenizer(folder: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder)


def inputs_of(
    folder: Path, messages: Sequence[Message], clips: Sequence[NDArray[np.int16]] = ()
) -> dict[str, torch.Tensor]:
    """What the processor of transformers would make, which cannot be had without torchvision."""
    from transformers import WhisperFeatureExtractor

    tokenizer, model = _tokenizer(folder), load_reference(folder)
    ids = tokenizer.apply_chat_template(
        list(messages), add_generation_prompt=True, return_dict=False
    )
    if not clips:
        return _text_inputs(ids)
    extractor = WhisperFeatureExtractor.from_pretrained(folder)
    features = extractor(
        [clip.astype(np.float32) / 32768.0 for clip in clips],
        sampling_rate=16000,
        padding="max_length",
        return_attention_mask=True,
        return_tensors="pt",
    )
    mask = features["attention_mask"]
    lengths = [int(n) for n in _num_tokens(model, mask.sum(-1))]
    audio_token = model.config.thinker_config.audio_token_id
    expanded: list[int] = []
    for token in ids:
        expanded += [token] * (lengths.pop(0) if token == audio_token else 1)
    return {
        **_text_inputs(expanded),
        "input_features": features["input_features"],
        "feature_attention_mask": mask,
    }


def _text_inputs(ids: Sequence[int]) -> dict[str, torch.Tensor]:
    """With a mask: without one the talker is not told where speech begins."""
    return {"input_ids": torch.tensor([ids]), "attention_mask": torch.ones(1, len(ids)).long()}


def _num_tokens(model: Any, num_frames: torch.Tensor) -> torch.Tensor:
    """The processors' formulas."""
    if model.config.model_type == "qwen2_5_omni":
        return ((num_frames - 1) // 2 + 1 - 2) // 2 + 1
    from transformers.models.qwen3_omni_moe.processing_qwen3_omni_moe import (
        _get_feat_extract_output_lengths,
    )

    lengths: torch.Tensor = _get_feat_extract_output_lengths(num_frames)
    return lengths


@torch.inference_mode()
def think(
    folder: Path,
    messages: Sequence[Message],
    num_tokens: int,
    clips: Sequence[NDArray[np.int16]] = (),
    layer: int = -1,
) -> Thinking:
    """The greedy answer; ``layer`` is that whose hidden states the talker reads."""
    inputs = inputs_of(folder, messages, clips)
    thinker = load_reference(folder).thinker
    result = thinker.generate(
        **inputs,
        max_new_tokens=num_tokens,
        do_sample=False,
        output_hidden_states=True,
        return_dict_in_generate=True,
        eos_token_id=stop_tokens(folder),
    )
    num_prompt = inputs["input_ids"].shape[1]
    states = result.hidden_states
    return Thinking(
        inputs["input_ids"][0].tolist(),
        result.sequences[0, num_prompt:].tolist(),
        torch.cat([step[0] for step in states], dim=1)[0].numpy(),
        torch.cat([step[layer] for step in states], dim=1)[0].numpy(),
    )


def stop_tokens(folder: Path) -> list[int]:
    return [_tokenizer(folder).convert_tokens_to_ids("<|im_end|>")]


@torch.inference_mode()
def speak(
    folder: Path,
    messages: Sequence[Message],
    num_tokens: int,
    clips: Sequence[NDArray[np.int16]] = (),
    *,
    speaker: str = "Chelsie",
    seed: int = 0,
) -> tuple[list[int], NDArray[np.float32]]:
    """The whole model's greedy answer: its token ids, and its waveform at 24 kHz."""
    inputs = inputs_of(folder, messages, clips)
    # One place of padding in front: generation drops a mask that hides nothing, and the talker then
    # leaves out its codes' start and padding.
    for name in ("input_ids", "attention_mask"):
        inputs[name] = torch.nn.functional.pad(inputs[name], (1, 0))
    model = load_reference(folder)
    said = json.loads((folder / "generation_config.json").read_text())
    torch.manual_seed(seed)
    tokens, waveform = model.generate(
        **inputs,
        speaker=speaker,
        thinker_max_new_tokens=num_tokens,
        thinker_do_sample=False,
        thinker_eos_token_id=stop_tokens(folder),
        talker_do_sample=False,
        talker_max_new_tokens=said["talker_max_new_tokens"],
        talker_repetition_penalty=said["talker_repetition_penalty"],
        **_talker_stops(model.config),
    )
    num_prompt = inputs["input_ids"].shape[1]
    return tokens[0, num_prompt:].tolist(), waveform.reshape(-1).numpy()


def _talker_stops(config: Any) -> dict[str, Any]:
    """The published models' ids are transformers' defaults, and these are not."""
    if config.model_type != "qwen2_5_omni":
        return {}
    talker = config.talker_config
    return {"talker_eos_token_id": [talker.tts_codec_pad_token_id, talker.tts_codec_end_token_id]}
