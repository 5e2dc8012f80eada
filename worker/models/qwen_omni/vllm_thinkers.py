"""The thinkers as classes for vLLM: its own language models, which tell the talker their states.

They read a whole omni checkpoint and take the thinker's language model out of it. Sound comes as
embeddings (vLLM's mixed prompts), from the stage that hears: so there is one way for sound into
both model families, and vLLM needs none of its image and video processing.

Positions have three numbers in these models, for time, height and width. Of text and sound all
three are the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from vllm.config import VllmConfig
from vllm.model_executor.models.interfaces import SupportsMRoPE
from vllm.model_executor.models.qwen2 import Qwen2ForCausalLM
from vllm.model_executor.models.qwen3_moe import Qwen3MoeForCausalLM
from vllm.model_executor.models.utils import WeightsMapper

from worker.vllm.state_teller import TellsStates

# Parts of the checkpoint that other stages run, and one that nothing here does: the eyes.
_LANGUAGE_MODEL = {"thinker.model.": "model.", "thinker.lm_head.": "lm_head."}
_OTHER_PARTS = ("thinker.audio_tower.", "thinker.visual.", "talker.", "token2wav.", "code2wav.")
_MAPPER = WeightsMapper(orig_to_new_prefix={**_LANGUAGE_MODEL, **dict.fromkeys(_OTHER_PARTS)})


class _FlatPositions:
    def get_mrope_input_positions(
        self, input_tokens: list[int], mm_features: Sequence[Any]
    ) -> tuple[torch.Tensor, int]:
        return torch.arange(len(input_tokens)).expand(3, -1), 0


class Qwen25Thinker(TellsStates, _FlatPositions, Qwen2ForCausalLM, SupportsMRoPE):  # type: ignore[misc]
    """Of Qwen2.5-Omni. It tells what comes behind the last layer's norm."""

    def __init__(self, *, vllm_config: VllmConfig, prefix: str = "") -> None:
        super().__init__(vllm_config=vllm_config, prefix=prefix)
        self.hand_out(None)

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> set[str]:
        loaded: set[str] = super().load_weights(_MAPPER.apply(weights))
        return loaded


class Qwen3Thinker(TellsStates, _FlatPositions, Qwen3MoeForCausalLM, SupportsMRoPE):  # type: ignore[misc]
    """Of Qwen3-Omni. It tells the input of the layer that the talker's configuration names."""

    def __init__(self, *, vllm_config: VllmConfig, prefix: str = "") -> None:
        config, text = vllm_config.model_config.hf_config, vllm_config.model_config.hf_text_config
        if not hasattr(text, "tie_word_embeddings"):
            # transformers 5.19 keeps it one level above, where vLLM's language model does not look.
            text.tie_word_embeddings = config.thinker_config.tie_word_embeddings
        super().__init__(vllm_config=vllm_config, prefix=prefix)
        layer = config.talker_config.accept_hidden_layer
        self.hand_out(layer if layer < self.config.num_hidden_layers else None)

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> set[str]:
        loaded: set[str] = super().load_weights(_MAPPER.apply(weights))
        return loaded
