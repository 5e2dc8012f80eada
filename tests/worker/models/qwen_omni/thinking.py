"""Thoughts as a thinker of transformers has them, and ways in which they may come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from engine.messages import Payload, StageRequest, StageUpdate
from worker.models.qwen_omni.thought import KEY, Thought, pack_thought
from worker.stage_model import StageModel


@torch.inference_mode()
def think(
    thinker: Any, prompt: torch.Tensor, num_tokens: int, layer: int = -1, **inputs: Any
) -> list[Thought]:
    """The prompt's thought, then one a row. ``prompt`` int64 [1, tokens]; greedy."""
    result = thinker.generate(
        input_ids=prompt,
        attention_mask=torch.ones_like(prompt),
        max_new_tokens=num_tokens,
        do_sample=False,
        output_hidden_states=True,
        return_dict_in_generate=True,
        **inputs,
    )
    tokens = result.sequences[0].numpy()
    sounds = (result.sequences[0] == thinker.config.audio_token_id).numpy()
    thoughts, start = [], 0
    for states in result.hidden_states:
        end = start + states[0].shape[1]
        thoughts.append(
            Thought(
                token_ids=tokens[start:end],
                embeddings=states[0][0].float().numpy(),
                hidden=states[layer][0].float().numpy(),
                multimodal=sounds[start:end],
                is_prompt=start == 0,
                is_last=end == len(tokens) - 1,
            )
        )
        start = end
    return thoughts


def payload(thought: Thought) -> Payload:
    return {"thought": {KEY: pack_thought(thought)}}


def joined(thoughts: Sequence[Thought]) -> Thought:
    """Rows of an answer, or of several, as one thought."""
    arrays = {
        name: np.concatenate([getattr(thought, name) for thought in thoughts])
        for name in ("token_ids", "embeddings", "hidden", "multimodal")
    }
    return Thought(**arrays, is_last=thoughts[-1].is_last)


@dataclass(slots=True)
class Sender:
    """Gives a stage the thoughts of one request, some at a time."""

    stage: StageModel
    name: str
    thoughts: list[Thought]
    num_sent: int = 0
    num_updates: int = 0

    def send(self, num_thoughts: int = 10**6) -> None:
        """So many more of the answer's thoughts, as one; the prompt by itself and first."""
        if self.num_sent == 0:
            self._update(self.thoughts[0])
            self.num_sent = 1
        rest = self.thoughts[self.num_sent : self.num_sent + num_thoughts]
        if rest:
            self._update(joined(rest))
            self.num_sent += len(rest)

    @property
    def is_done(self) -> bool:
        return self.num_sent == len(self.thoughts)

    def _update(self, thought: Thought) -> None:
        update = StageUpdate(self.name, self.num_updates, payload(thought), final=thought.is_last)
        self.stage.update(update)
        self.num_updates += 1


def start(stage: StageModel, request: StageRequest, thoughts: list[Thought]) -> Sender:
    stage.add(request)
    return Sender(stage, request.request_id, thoughts)
