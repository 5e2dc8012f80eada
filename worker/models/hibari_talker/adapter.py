"""Caller's side of hibari-talker: hibari's voices and prompts, but that a style goes to the talker.

Runs in the API process: nothing here loads a model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.errors import InvalidRequestError
from engine.messages import Prompt, SamplingParams
from engine.pipeline import PromptExpansion
from worker.models.hibari.adapter import list_voices, read_prompt
from worker.models.hibari.styles import SpokenStyle
from worker.vllm.sampling import read_guidance

__all__ = ["expand_prompt", "list_voices", "transform_prompt"]

NULL_ROLE = "null"
"""The companion that has no style."""

GUIDANCE = (1.0, 1.0, 1.5, 3.0)
"""By the strongest level: none for the voice's own way and for "slightly". A level beyond 2
("very") is the talker's 2, guided more. They move length and pitch about as far as hibari's
parameters do for the same words (``python -m benchmarks talker``)."""


def transform_prompt(prompt: Prompt) -> Prompt:
    """What the talker reads: as hibari's prosody stage, with the levels of ``instructions``.

    ``style`` holds levels from -2 to 2 of rate, pitch and liveliness, ``guidance`` the scale that
    is used if the request names none, ``in_segments`` that its text comes so. Raises
    ``InvalidRequestError``.
    """
    spoken, style = read_prompt(prompt)
    levels = [max(-2, min(2, level)) for level in (style.rate, style.pitch, style.liveliness)]
    return spoken | {
        "style": levels,
        "guidance": default_guidance(style),
        "in_segments": bool(prompt.get("resumable")),
    }


def default_guidance(style: SpokenStyle) -> float:
    """The guidance scale of a style that a request does not give one for."""
    return GUIDANCE[max(abs(level) for level in (style.rate, style.pitch, style.liveliness))]


def expand_prompt(prompt: Prompt, sampling: SamplingParams) -> Sequence[PromptExpansion]:
    """The companion of a guided request.

    One whose text comes in segments has none: the talker makes the second row by itself, since
    only it knows the sentences.
    """
    if guidance_of(prompt, sampling) == 1.0 or prompt["in_segments"]:
        return []
    return [PromptExpansion({}, NULL_ROLE, f"~{NULL_ROLE}")]


def guidance_of(prompt: dict[str, Any], sampling: SamplingParams) -> float:
    """The guidance scale that was asked for, or the style's own."""
    scale = read_guidance(sampling, float(prompt["guidance"]))
    if scale < 1.0:
        raise InvalidRequestError(
            f"guidance_scale must be from 1 up, got {scale:g}", param="guidance_scale"
        )
    return scale
