"""How a passage is sampled: what a client asked for, over a model family's defaults.

Light, so that a family can check a request on the caller's side by the same rules.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from engine.errors import InvalidRequestError
from engine.messages import SamplingParams

# vLLM's own bounds; temperatures above 2 are noise, and OpenAI's bound.
_MAX_TEMPERATURE = 2.0
_MAX_PENALTY = 2.0
_MAX_LIST = 1024
# Beyond this the blend's logits are all but one-hot; it also keeps them finite in float32.
MAX_GUIDANCE_SCALE = 100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSampling:
    """How vLLM samples one passage; fields as in vLLM's own ``SamplingParams``.

    ``temperature`` 0 is greedy; ``top_k`` 0 is no limit. ``max_tokens`` bounds the passage: a
    stream that reaches it ends with the reason ``length``, which is for the sink to judge.
    ``seed`` None is one made from the request's seed and the passage's number. With guidance,
    penalties are refused: they would act on each row by itself, behind the blend. ``grammar``, in
    the Lark of llguidance, holds the text to a form, at whose end the passage ends; not with
    guidance. It must have been checked: one that is none costs the request an unclear error.
    """

    max_tokens: int
    min_tokens: int = 0
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    allowed_token_ids: tuple[int, ...] = ()
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    grammar: str | None = None


def read_sampling(params: SamplingParams, defaults: TokenSampling) -> TokenSampling:
    """The family's defaults with what ``params`` changes.

    ``max_tokens`` can only be lowered. ``params.extra`` may hold the other fields of
    ``TokenSampling``. Raises ``InvalidRequestError`` that names the field and what it allows.
    """
    asked = {name: getattr(params, name) for name in _NAMED if getattr(params, name) is not None}
    for name, value in params.extra.items():
        if name not in _EXTRA:
            known = ", ".join(sorted(_EXTRA))
            raise InvalidRequestError(
                f"{name} is not a sampling parameter of this model; known: {known}", param=name
            )
        asked[name] = value
    changes = {name: _CHECKS[name](name, value) for name, value in asked.items()}
    if "max_tokens" in changes:
        changes["max_tokens"] = min(changes["max_tokens"], defaults.max_tokens)
    return replace(defaults, **changes)


def read_guidance(params: SamplingParams, default: float) -> float:
    """The guidance scale: from 0 (unconditional) over 1 (none) up. Raises as ``read_sampling``."""
    if params.guidance_scale is None:
        return default
    return _number(0.0, MAX_GUIDANCE_SCALE)("guidance_scale", params.guidance_scale)


def refuse_fixed(params: SamplingParams, fixed: Collection[str], reason: str) -> None:
    """Raise for a parameter among ``fixed``: those that the model's own format decides."""
    given = {*params.extra, *(name for name in _NAMED if getattr(params, name) is not None)}
    if found := sorted(given & set(fixed)):
        raise InvalidRequestError(f"{found[0]} cannot be set: {reason}", param=found[0])


def refuse_penalties(sampling: TokenSampling) -> None:
    """Raise for a sampling parameter that guidance cannot honour."""
    for name, neutral in _PENALTIES.items():
        if getattr(sampling, name) != neutral:
            raise InvalidRequestError(f"{name} cannot be used together with guidance", param=name)


# --- checks of one value -------------------------------------------------------------------------

Check = Callable[[str, Any], Any]


def _refuse(name: str, allowed: str, value: Any) -> InvalidRequestError:
    return InvalidRequestError(f"{name} must be {allowed}, got {value!r}"[:200], param=name)


def _number(low: float, high: float, *, above: bool = False) -> Callable[[str, Any], float]:
    """A finite number from ``low`` (or above it) to ``high``."""
    allowed = f"above {low:g} and at most {high:g}" if above else f"from {low:g} to {high:g}"

    def check(name: str, value: Any) -> float:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not math.isfinite(value):
            raise _refuse(name, allowed, value)
        if not low <= value <= high or (above and value == low):
            raise _refuse(name, allowed, value)
        return float(value)

    return check


def _integer(low: int, high: int) -> Check:
    def check(name: str, value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise _refuse(name, f"an integer from {low} to {high}", value)
        return value

    return check


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _refuse(name, "true or false", value)
    return value


def _texts(name: str, value: Any) -> tuple[str, ...]:
    texts = [value] if isinstance(value, str) else value
    is_list = isinstance(texts, list | tuple) and len(texts) <= 16
    if not is_list or not all(isinstance(text, str) and text for text in texts):
        raise _refuse(name, "up to 16 texts that are not empty", value)
    return tuple(texts)


def _token_ids(name: str, value: Any) -> tuple[int, ...]:
    is_list = isinstance(value, list | tuple) and len(value) <= _MAX_LIST
    if not is_list or not all(type(item) is int and item >= 0 for item in value):
        raise _refuse(name, f"up to {_MAX_LIST} token ids", value)
    return tuple(value)


def _biases(name: str, value: Any) -> dict[int, float]:
    allowed = f"up to {_MAX_LIST} token ids with numbers from -100 to 100"
    if not isinstance(value, Mapping) or len(value) > _MAX_LIST:
        raise _refuse(name, allowed, value)
    number = _number(-100.0, 100.0)
    try:
        return {int(token): number(name, bias) for token, bias in value.items()}
    except (ValueError, TypeError) as error:
        raise _refuse(name, allowed, value) from error


_PENALTIES = {"presence_penalty": 0.0, "frequency_penalty": 0.0, "repetition_penalty": 1.0}
_CHECKS: dict[str, Check] = {
    "max_tokens": _integer(1, 2**31 - 1),
    "min_tokens": _integer(0, 2**31 - 1),
    "temperature": _number(0.0, _MAX_TEMPERATURE),
    "top_p": _number(0.0, 1.0, above=True),
    "top_k": _integer(0, 2**31 - 1),
    "min_p": _number(0.0, 1.0),
    "seed": _integer(-(2**63), 2**63 - 1),
    "stop": _texts,
    "stop_token_ids": _token_ids,
    "ignore_eos": _flag,
    "logit_bias": _biases,
    "allowed_token_ids": _token_ids,
    "presence_penalty": _number(-_MAX_PENALTY, _MAX_PENALTY),
    "frequency_penalty": _number(-_MAX_PENALTY, _MAX_PENALTY),
    "repetition_penalty": _number(0.0, 10.0, above=True),
}
_NAMED = ("temperature", "top_p", "top_k", "max_tokens", "seed")
_EXTRA = frozenset(_CHECKS) - frozenset(_NAMED)
