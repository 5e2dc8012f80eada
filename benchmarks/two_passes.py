"""The talker in a plain loop: transformers' model, both rows of a guided sentence in one batch."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import torch

from worker.models.hibari_talker.talker import PLAUSIBLE_NATS
from worker.models.hibari_talker.tokens import (
    FIRST_PROSODY,
    FIRST_STYLE,
    NULL_STYLE,
    Style,
    bucket_of,
    build_prompt,
)

TEMPERATURE, TOP_P = 0.7, 0.95


def shipped_weights() -> Path:
    """The folder of the weights that voxloom ships."""
    return Path(str(resources.files("worker.models.hibari_talker") / "weights"))


class TwoPasses:
    """Writes prosody tokens for many sentences at once, in float32 as the stage does."""

    def __init__(self, folder: Path) -> None:
        from transformers import Qwen3ForCausalLM

        torch.set_num_threads(1)
        self._model: Any = Qwen3ForCausalLM.from_pretrained(folder, dtype=torch.float32)
        self._model.eval()

    def write(
        self, sentences: Sequence[Sequence[int]], style: Style, scale: float, seed: int
    ) -> list[list[int]]:
        """Tokens of sentences of phoneme ids, sampled as the pipeline does by default."""
        written: dict[int, list[int]] = {}
        for slots in sorted({bucket_of(len(ids))[0] for ids in sentences}):
            here = [n for n, ids in enumerate(sentences) if bucket_of(len(ids))[0] == slots]
            rows = self._write_bucket([sentences[n] for n in here], style, scale, seed)
            written |= dict(zip(here, rows, strict=True))
        return [written[number] for number in range(len(sentences))]

    def _write_bucket(
        self, sentences: list[Sequence[int]], style: Style, scale: float, seed: int
    ) -> list[list[int]]:
        prompts = [build_prompt(ids, style.tokens) for ids in sentences]
        if scale != 1.0:
            prompts += [build_prompt(ids, NULL_STYLE) for ids in sentences]
        generator = torch.Generator().manual_seed(seed)
        tokens = torch.tensor(prompts)
        cache: Any = None
        written = []
        for _ in range(max(len(ids) for ids in sentences)):
            with torch.no_grad():
                answer = self._model(
                    input_ids=tokens, past_key_values=cache, use_cache=True, logits_to_keep=1
                )
            cache = answer.past_key_values
            new = _sample(_blend(answer.logits[:, -1].float(), len(sentences), scale), generator)
            written.append(new)
            tokens = new.repeat(len(prompts) // len(sentences))[:, None]
        rows = torch.stack(written, 1).tolist()
        return [row[: len(ids)] for row, ids in zip(rows, sentences, strict=True)]


def _blend(logits: torch.Tensor, num_sentences: int, scale: float) -> torch.Tensor:
    guided, free = logits[:num_sentences], logits[num_sentences:]
    if scale == 1.0:
        return guided
    blend = free + scale * (guided - free)
    implausible = guided < guided.amax(-1, keepdim=True) - PLAUSIBLE_NATS
    return blend.masked_fill(implausible, -torch.inf)


def _sample(logits: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """One token a row: the temperature, then the likeliest that make up ``TOP_P``."""
    odds = (logits[:, FIRST_PROSODY:FIRST_STYLE] / TEMPERATURE).softmax(-1)
    ordered, tokens = odds.sort(-1, descending=True)
    ordered[ordered.cumsum(-1) - ordered >= TOP_P] = 0
    chosen = torch.multinomial(ordered, 1, generator=generator)
    return tokens.gather(-1, chosen)[:, 0] + FIRST_PROSODY
