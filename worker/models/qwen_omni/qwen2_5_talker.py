"""Qwen2.5-Omni's talker: one code a frame, the thinker's hidden states as its text.

What is read at which position follows ``Qwen2_5OmniForConditionalGeneration.generate`` of
transformers 5.19, for a prompt with padding: for one without, that version drops the mask of ones,
and by mistake then leaves out the codes that the first two positions behind the prompt read.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import Qwen2_5OmniConfig, Qwen2_5OmniTalkerForConditionalGeneration

from engine.errors import ConfigError
from worker.models.qwen_omni.code_sampling import CodeSampling, checkpoint_sampling
from worker.models.qwen_omni.kv_pool import KvShape, KvStep
from worker.models.qwen_omni.speakers import Speaker, find_speaker, load_speakers, speakers_file
from worker.models.qwen_omni.talker import Opening, TalkerFacts, first_logits, run_layers
from worker.models.qwen_omni.thought import Thought
from worker.models.qwen_omni.weights import (
    generation_config,
    load_part,
    thinker_embeddings,
    weight_files,
)

# What transformers' generate has where a checkpoint says nothing.
_SAMPLING = CodeSampling(
    max_frames=4096, temperature=0.9, top_k=40, top_p=0.8, repetition_penalty=1.05
)
_FRAME_MS = 20.0  # 240 samples of 24 kHz a mel frame, two mel frames a code


class Qwen25Talker:
    """A ``Talker``. All that it reads is as wide as the thinker; ``run`` projects it."""

    def __init__(
        self,
        model: Any,
        speakers: dict[str, Speaker],
        embeddings: dict[int, torch.Tensor],
        sampling: CodeSampling,
        files: list[Path],
    ) -> None:
        """``embeddings``: the thinker's, of the speakers' and the text's control tokens."""
        self._model = model
        self._speakers = speakers
        self.device: torch.device = model.device
        self.files = files
        self._openers = {name: self._put(embeddings[s.bos_token]) for name, s in speakers.items()}
        config = model.config
        self.end_text = self._put(embeddings[config.tts_text_end_token_id])
        self.pad_text = self._put(embeddings[config.tts_text_pad_token_id])
        table = model.get_input_embeddings().weight.detach()
        self.bos: torch.Tensor = table[config.tts_codec_start_token_id]
        self._pad_code: torch.Tensor = table[config.tts_codec_pad_token_id]
        self.facts = _facts(config, sampling, model.dtype)

    def find_voice(self, prompt: dict[str, Any]) -> str:
        return find_speaker(prompt.get("voice"), list(self._speakers))

    def open(self, voice: str, prompt: Thought) -> Opening:
        """The thinker's sums, without the embeddings of sounds, then the speaker's token."""
        embeddings = self._put(torch.from_numpy(prompt.embeddings))
        is_sound = torch.from_numpy(prompt.multimodal).to(self.device)
        sums = self._put(torch.from_numpy(prompt.hidden)) + embeddings.masked_fill(
            is_sound[:, None], 0
        )
        opener = self._openers[voice] + self._pad_code
        return Opening(torch.cat([sums, opener[None]]), sums[:0])

    def texts(self, thought: Thought) -> torch.Tensor:
        hidden = self._put(torch.from_numpy(thought.hidden))
        return hidden + self._put(torch.from_numpy(thought.embeddings))

    def run(self, inputs: torch.Tensor, step: KvStep) -> torch.Tensor:
        inputs = self._model.thinker_to_talker_proj(inputs)
        return run_layers(self._model, inputs, {"full_attention": step.mask}, step)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        return first_logits(self._model, hidden)

    def complete(
        self,
        hidden: torch.Tensor,
        codes: torch.Tensor,
        samplings: Sequence[CodeSampling],
        seeds: Sequence[int],
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """A frame is its one code."""
        return codes[:, None], self._model.get_input_embeddings()(codes)

    def _put(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(self.device, self._model.dtype)


def _facts(config: Any, sampling: CodeSampling, dtype: torch.dtype) -> TalkerFacts:
    return TalkerFacts(
        thinker_width=config.embedding_size,
        frame_width=1,
        frame_ms=_FRAME_MS,
        num_codes=config.vocab_size,
        stop_codes=(config.tts_codec_pad_token_id, config.tts_codec_end_token_id),
        banned_codes=(config.tts_codec_start_token_id,),
        said_codes=(
            config.tts_codec_mask_token_id,
            config.tts_codec_pad_token_id,
            config.tts_codec_start_token_id,
        ),
        sampling=sampling,
        kv_shape=KvShape(
            num_layers=config.num_hidden_layers,
            num_heads=config.num_key_value_heads,
            head_dim=config.head_dim,
            dtype=dtype,
        ),
        max_positions=config.max_position_embeddings,
    )


def load_talker(checkpoint: str, dtype: torch.dtype | str, device: torch.device) -> Qwen25Talker:
    """The talker of a checkpoint, a folder or a hub id. Raises ``ConfigError``."""
    config = Qwen2_5OmniConfig.from_pretrained(checkpoint).talker_config
    if set(config.layer_types) != {"full_attention"}:
        raise ConfigError(f"{checkpoint}: a talker with sliding attention is not supported")
    kind = Qwen2_5OmniTalkerForConditionalGeneration
    model = load_part(checkpoint, kind, config, "talker", dtype=dtype, device=device)
    speakers = load_speakers(checkpoint)
    tokens = sorted(
        {speaker.bos_token for speaker in speakers.values()}
        | {config.tts_text_end_token_id, config.tts_text_pad_token_id}
    )
    embeddings = dict(zip(tokens, thinker_embeddings(checkpoint, tokens), strict=True))
    sampling = checkpoint_sampling(generation_config(checkpoint), _SAMPLING)
    files = [*weight_files(checkpoint, "talker."), speakers_file(checkpoint)]
    return Qwen25Talker(model, speakers, embeddings, sampling, files)
