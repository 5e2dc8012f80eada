"""How a talker picks its next codes: as transformers does, but each draw is a function of a seed.

A draw depends on the request's seed and on the frame's number, never on who else is in the batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch

from engine.errors import InvalidRequestError
from engine.messages import SamplingParams
from worker.seeds import nth_seed
from worker.vllm.sampling import TokenSampling, read_sampling

_EXTRA = ("repetition_penalty",)


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeSampling:
    """``temperature`` 0 is greedy; ``top_k`` 0 is no limit. ``max_frames`` bounds the speech."""

    max_frames: int
    temperature: float = 0.9
    top_k: int = 50
    top_p: float = 1.0
    repetition_penalty: float = 1.0


def checkpoint_sampling(config: Mapping[str, Any], defaults: CodeSampling) -> CodeSampling:
    """``defaults`` with what a checkpoint's generation config says of its talker."""
    said = {
        field.name: config[key]
        for field in fields(CodeSampling)
        if (key := _CONFIG_KEYS.get(field.name, f"talker_{field.name}")) in config
    }
    if config.get("talker_do_sample") is False:
        said["temperature"] = 0.0
    known = {field.name: getattr(defaults, field.name) for field in fields(CodeSampling)}
    return CodeSampling(**known | said)


_CONFIG_KEYS = {"max_frames": "talker_max_new_tokens"}


def read_code_sampling(params: SamplingParams, defaults: CodeSampling) -> CodeSampling:
    """What a request changes of the model's own; ``max_tokens`` counts frames.

    Raises ``InvalidRequestError`` that names the field and what it allows.
    """
    for name in params.extra:
        if name not in _EXTRA:
            known = ", ".join(_EXTRA)
            raise InvalidRequestError(
                f"{name} is not a sampling parameter of the talker; known: {known}", param=name
            )
    if params.guidance_scale is not None:
        raise InvalidRequestError("the talker knows no guidance_scale", param="guidance_scale")
    names = [field.name for field in fields(CodeSampling) if field.name != "max_frames"]
    known_values = {name: getattr(defaults, name) for name in names}
    read = read_sampling(params, TokenSampling(max_tokens=defaults.max_frames, **known_values))
    return CodeSampling(max_frames=read.max_tokens, **{name: getattr(read, name) for name in names})


def draw(seed: int, number: int) -> float:
    """A number from 0 to below 1, of both alone."""
    return nth_seed(seed, number) / 2**63


def penalise(logits: torch.Tensor, seen: torch.Tensor, penalties: Sequence[float]) -> torch.Tensor:
    """Logits [rows, codes] of codes that were said (``seen`` bool [rows, codes]) made smaller.

    Keskar et al. 2019, "CTRL", with the division by a penalty turned round below 0.
    """
    if all(penalty == 1.0 for penalty in penalties):
        return logits
    by = torch.tensor(penalties, dtype=logits.dtype, device=logits.device)[:, None]
    return torch.where(seen, torch.where(logits < 0, logits * by, logits / by), logits)


def pick(
    logits: torch.Tensor, samplings: Sequence[CodeSampling], draws: Sequence[float]
) -> torch.Tensor:
    """A code for each row of logits, float32 [rows, codes]: int64 [rows]."""
    best = logits.argmax(dim=-1)
    if all(sampling.temperature == 0 for sampling in samplings):
        return best

    def column(values: Sequence[float]) -> torch.Tensor:
        return torch.tensor(values, dtype=logits.dtype, device=logits.device)[:, None]

    is_greedy = column([float(sampling.temperature == 0) for sampling in samplings])[:, 0].bool()
    ordered, codes = (logits / column([s.temperature or 1.0 for s in samplings])).sort(
        dim=-1, descending=True, stable=True
    )
    ranks = torch.arange(logits.shape[-1], device=logits.device)
    ordered[ranks >= column([s.top_k or logits.shape[-1] for s in samplings])] = -torch.inf
    shares = ordered.softmax(dim=-1)
    likelier = shares.cumsum(dim=-1) - shares
    is_out = (likelier >= column([s.top_p for s in samplings])) & (ranks > 0)
    shares = shares.masked_fill(is_out, 0.0)
    reached = shares.cumsum(dim=-1)
    places = (reached <= column(draws) * reached[:, -1:]).sum(dim=-1, keepdim=True)
    last = (shares > 0).sum(dim=-1, keepdim=True) - 1
    drawn = codes.gather(1, torch.minimum(places, last))[:, 0]
    return torch.where(is_greedy, best, drawn)
