"""Qwen3-Omni's talker: a first code a frame, and a small network for the frame's other codes.

What is read at which position follows ``Qwen3OmniMoeForConditionalGeneration.generate`` of
transformers 5.19.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import (
    DynamicCache,
    Qwen3OmniMoeConfig,
    Qwen3OmniMoeTalkerForConditionalGeneration,
)
from transformers.conversion_mapping import (
    get_checkpoint_conversion_mapping,
    register_checkpoint_conversion_mapping,
)

from engine.errors import StageFailedError
from worker.models.qwen_omni.code_sampling import CodeSampling, checkpoint_sampling, draw, pick
from worker.models.qwen_omni.kv_pool import KvShape, KvStep
from worker.models.qwen_omni.speakers import find_speaker
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
    max_frames=4096, temperature=0.9, top_k=50, top_p=1.0, repetition_penalty=1.05
)
# The other codes are drawn so whatever the request asks, but for greedy ones.
_OTHERS = CodeSampling(max_frames=1, temperature=1.0, top_k=50, top_p=0.8)
# The last codes of the vocabulary are marks, and only one of them may be said.
_NUM_MARKS = 1024
_NUM_ROLE_TOKENS = 3  # <|im_start|>, assistant, a line break
_NUM_PADS = 4
_SAMPLES_PER_MS = 24


class PublishedTalker(Qwen3OmniMoeTalkerForConditionalGeneration):  # type: ignore[misc]
    """Loads experts as they are published, one by one.

    transformers 5.19 joins them only where it loads the whole model.
    """


register_checkpoint_conversion_mapping(
    PublishedTalker.__name__,
    get_checkpoint_conversion_mapping("qwen3_omni_moe"),
    overwrite=True,
)


class Qwen3Talker:
    """A ``Talker``. Texts are the thinker's embeddings, projected; of sounds, its hidden states."""

    def __init__(
        self,
        model: Any,
        config: Any,
        marks: torch.Tensor,
        sampling: CodeSampling,
        files: list[Path],
    ) -> None:
        """``marks``: the thinker's embeddings of the begin, the end and the padding of speech."""
        self._model = model
        self._config = config
        self._speakers: dict[str, int] = config.talker_config.speaker_id
        self.device: torch.device = model.device
        self.files = files
        with torch.inference_mode():
            begin, end, pad = model.text_projection(self._put(marks))
        self._begin_text: torch.Tensor = begin
        self.end_text: torch.Tensor = end
        self.pad_text: torch.Tensor = pad
        self._codes = model.get_input_embeddings().weight.detach()
        self.bos: torch.Tensor = self._codes[config.talker_config.codec_bos_id]
        self.facts = _facts(config, sampling, model.dtype)

    def find_voice(self, prompt: dict[str, Any]) -> str:
        return find_speaker(prompt.get("voice"), list(self._speakers))

    def open(self, voice: str, prompt: Thought) -> Opening:
        """What users said, and the marks of an answer in this voice.

        Raises ``StageFailedError`` if the prompt does not end with an answer's begin.
        """
        config = self._config
        starts = np.flatnonzero(prompt.token_ids == config.im_start_token_id)
        roles = np.append(prompt.token_ids, -1)[starts + 1]
        if not len(starts) or roles[-1] != config.assistant_token_id:
            raise StageFailedError("the thinker's prompt does not end with the assistant's turn")
        lengths = np.diff(np.append(starts, len(prompt.token_ids)))
        of_user = np.zeros(len(prompt.token_ids), bool)
        for start, length, role in zip(starts, lengths, roles, strict=True):
            of_user[start : start + length] = role == config.user_token_id
        asked = self._read(prompt, of_user)
        turn = self._texts(prompt.embeddings[starts[-1] :])
        if len(turn) < _NUM_ROLE_TOKENS:
            raise StageFailedError("the assistant's turn in the prompt must have three tokens")
        marks = torch.stack([*[self.pad_text] * _NUM_PADS, self._begin_text])
        marks = marks + self._codes[self._opening_codes(voice)]
        inputs = torch.cat([asked, turn[:_NUM_ROLE_TOKENS], marks])
        return Opening(inputs, turn[_NUM_ROLE_TOKENS:])

    def texts(self, thought: Thought) -> torch.Tensor:
        return self._texts(thought.embeddings)

    def run(self, inputs: torch.Tensor, step: KvStep) -> torch.Tensor:
        return run_layers(self._model, inputs, step.mask, step)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        return first_logits(self._model, hidden)

    def complete(
        self,
        hidden: torch.Tensor,
        codes: torch.Tensor,
        samplings: Sequence[CodeSampling],
        seeds: Sequence[int],
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The other codes one after the other, for all rows at once."""
        predictor = self._model.code_predictor
        others = [_greedy(s) if s.temperature == 0 else _OTHERS for s in samplings]
        embeddings = [self._codes[codes]]
        inputs = torch.stack([hidden, embeddings[0]], dim=1)
        cache = DynamicCache(config=predictor.config)
        frames = [codes]
        for number, (table, head) in enumerate(
            zip(predictor.get_input_embeddings(), predictor.lm_head, strict=True), start=1
        ):
            output = predictor.model(inputs_embeds=inputs, past_key_values=cache, use_cache=True)
            logits = head(output.last_hidden_state[:, -1]).float()
            frames.append(pick(logits, others, [draw(seed, number) for seed in seeds]))
            embeddings.append(table(frames[-1]))
            inputs = embeddings[-1][:, None]
        return torch.stack(frames, dim=1), torch.stack(embeddings, dim=1).sum(dim=1)

    def _opening_codes(self, voice: str) -> list[int]:
        config = self._config.talker_config
        return [
            config.codec_nothink_id,
            config.codec_think_bos_id,
            config.codec_think_eos_id,
            self._speakers[voice],
            config.codec_pad_id,
        ]

    def _read(self, prompt: Thought, chosen: np.ndarray[Any, np.dtype[np.bool_]]) -> torch.Tensor:
        """Projected positions of the prompt, in order."""
        read = self._texts(prompt.embeddings[chosen])
        is_sound = torch.from_numpy(prompt.multimodal[chosen]).to(self.device)
        hidden = self._put(torch.from_numpy(prompt.hidden[chosen]))
        return torch.where(is_sound[:, None], self._model.hidden_projection(hidden), read)

    def _texts(self, embeddings: np.ndarray[Any, np.dtype[np.float32]]) -> torch.Tensor:
        texts: torch.Tensor = self._model.text_projection(self._put(torch.from_numpy(embeddings)))
        return texts

    def _put(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(self.device, self._model.dtype)


def _greedy(sampling: CodeSampling) -> CodeSampling:
    return CodeSampling(max_frames=sampling.max_frames, temperature=0.0)


def _facts(config: Any, sampling: CodeSampling, dtype: torch.dtype) -> TalkerFacts:
    talker, text = config.talker_config, config.talker_config.text_config
    eos = talker.codec_eos_token_id
    marks = range(text.vocab_size - _NUM_MARKS, text.vocab_size)
    wav = config.code2wav_config
    frame_samples = int(np.prod((*wav.upsample_rates, *wav.upsampling_ratios)))
    return TalkerFacts(
        thinker_width=talker.thinker_hidden_size,
        frame_width=talker.num_code_groups,
        frame_ms=frame_samples / _SAMPLES_PER_MS,
        num_codes=text.vocab_size,
        stop_codes=(eos,),
        banned_codes=tuple(code for code in marks if code >= 0 and code != eos),
        said_codes=(),
        sampling=sampling,
        kv_shape=KvShape(
            num_layers=text.num_hidden_layers,
            num_heads=text.num_key_value_heads,
            head_dim=getattr(text, "head_dim", text.hidden_size // text.num_attention_heads),
            dtype=dtype,
        ),
        max_positions=text.max_position_embeddings,
    )


def load_talker(checkpoint: str, dtype: torch.dtype | str, device: torch.device) -> Qwen3Talker:
    """The talker of a checkpoint, a folder or a hub id. Raises ``ConfigError``."""
    config = Qwen3OmniMoeConfig.from_pretrained(checkpoint)
    model = load_part(
        checkpoint, PublishedTalker, config.talker_config, "talker", dtype=dtype, device=device
    )
    tokens = [config.tts_bos_token_id, config.tts_eos_token_id, config.tts_pad_token_id]
    marks = thinker_embeddings(checkpoint, tokens)
    sampling = checkpoint_sampling(generation_config(checkpoint), _SAMPLING)
    return Qwen3Talker(model, config, marks, sampling, weight_files(checkpoint, "talker."))
