"""What the talker's stage asks of a talker's network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch

from worker.models.qwen_omni.code_sampling import CodeSampling
from worker.models.qwen_omni.kv_pool import KvShape, KvStep
from worker.models.qwen_omni.thought import Thought


@dataclass(frozen=True, slots=True, kw_only=True)
class TalkerFacts:
    """``frame_width``: codes of a frame. ``frame_ms``: how long one sounds.

    A frame's first code is one of ``num_codes``; ``stop_codes`` end the speech, ``banned_codes``
    are never said, and ``said_codes`` count as said from the start for the repetition penalty.
    """

    thinker_width: int
    frame_width: int
    frame_ms: float
    num_codes: int
    stop_codes: tuple[int, ...]
    banned_codes: tuple[int, ...]
    said_codes: tuple[int, ...]
    sampling: CodeSampling
    kv_shape: KvShape
    max_positions: int


@dataclass(frozen=True, slots=True)
class Opening:
    """How a speech begins: inputs [tokens, width] of all positions but the last.

    ``texts`` [n, width] are those of the answer's texts that the prompt has already.
    """

    inputs: torch.Tensor
    texts: torch.Tensor


class Talker(Protocol):
    """A network that reads one text, or the silence after all text, with each frame that it says.

    The position after the opening reads the first text and ``bos``; each further one a frame that
    was said and the next text: first the answer's, then ``end_text`` once, then ``pad_text``. All
    of these have one width; tensors are on ``device``.
    """

    @property
    def facts(self) -> TalkerFacts: ...

    @property
    def device(self) -> torch.device: ...

    @property
    def files(self) -> list[Path]:
        """The files that decide what it says."""
        ...

    @property
    def bos(self) -> torch.Tensor: ...

    @property
    def end_text(self) -> torch.Tensor: ...

    @property
    def pad_text(self) -> torch.Tensor: ...

    def find_voice(self, prompt: dict[str, Any]) -> str:
        """The voice that a request asks for. Raises ``InvalidRequestError`` that lists them."""
        ...

    def open(self, voice: str, prompt: Thought) -> Opening:
        """Raises ``StageFailedError`` for a prompt that it cannot read."""
        ...

    def texts(self, thought: Thought) -> torch.Tensor:
        """What the answer's rows are to the talker: [rows, width]."""
        ...

    def run(self, inputs: torch.Tensor, step: KvStep) -> torch.Tensor:
        """Inputs [rows, tokens, width] to the hidden state [rows, hidden] of each last one."""
        ...

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Of each frame's first code: float32 [rows, num_codes]."""
        ...

    def complete(
        self,
        hidden: torch.Tensor,
        codes: torch.Tensor,
        samplings: Sequence[CodeSampling],
        seeds: Sequence[int],
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """First codes [rows] to frames int64 [rows, frame_width] and what to read of each.

        The latter is [rows, width]. ``seeds`` are those of the frames.
        """
        ...


def run_layers(model: Any, inputs: torch.Tensor, mask: Any, step: KvStep) -> torch.Tensor:
    """``Talker.run`` of a model of transformers, which has ``mask`` in its own form."""
    output = model.model(
        inputs_embeds=inputs,
        attention_mask=mask,
        position_ids=step.positions.expand(3, -1, -1),
        past_key_values=step,
        use_cache=True,
    )
    last: torch.Tensor = output.last_hidden_state[:, -1]
    return last


def first_logits(model: Any, hidden: torch.Tensor) -> torch.Tensor:
    """``Talker.logits`` of a model of transformers."""
    logits: torch.Tensor = model.codec_head(hidden).float()
    return logits
