"""Caller's side of codec-token language models: voices, checks of prompts, guided companions.

Runs in the API process: nothing here loads a model or a tokenizer.
"""

from __future__ import annotations

import unicodedata
from typing import Any

from engine.errors import InvalidRequestError
from engine.messages import Prompt, SamplingParams
from engine.pipeline import PromptExpansion, Voice
from worker.models.lm_codec.description import Description, VoiceSpec, load_description
from worker.models.speech_prompt import check_keys, text_of

NULL_ROLE = "null"
# A description of a voice has some dozens of words.
MAX_INSTRUCTIONS_CHARS = 1000
# One character for one, so that places in the text stay. Typographic marks make models of this kind
# stop early: their transcripts had none.
_PLAIN = str.maketrans("“”„«»‘’‚‛`´–—―−‐‑\u00a0\u2028\u2029", "\"\"\"\"\"''''''------   ")

# A line's end, and the joiners that some scripts are written with.
_KEPT = frozenset("\n\u200c\u200d")


def list_voices(description: str) -> list[Voice]:
    return [
        Voice(v.id, v.name, v.language, v.gender, v.description, v.aliases)
        for v in load_description(description).voices
    ]


def transform_prompt(prompt: Prompt, description: str) -> Prompt:
    """What the language-model stage reads; and ``warnings``.

    ``text``, ``voice``, ``fields``, and ``in_segments``: that its text comes so. Raises
    ``InvalidRequestError``.
    """
    spec = load_description(description)
    check_keys(prompt)
    voice = find_voice(spec, prompt.get("voice"))
    _check_speed(prompt.get("speed"))
    _check_language(spec, voice, prompt.get("language"))
    fields, warnings = _fields(spec, voice, prompt.get("instructions"))
    text = plain_text(text_of(prompt))
    if not prompt.get("resumable") and not any(c.isalnum() for c in text):
        raise InvalidRequestError("input holds nothing that can be spoken", param="input")
    return {
        "text": text,
        "voice": voice.id,
        "fields": fields,
        "in_segments": bool(prompt.get("resumable")),
        "warnings": warnings,
    }


def expand_prompt(
    prompt: Prompt, sampling: SamplingParams, description: str
) -> list[PromptExpansion]:
    """The unconditional companion of a guided request; none where the scale is 1.

    One whose text comes in segments has none: its unconditional row is made with each passage, by
    the stage itself. Raises ``InvalidRequestError``.
    """
    spec = load_description(description)
    scale = check_guidance(spec, sampling.guidance_scale)
    if scale == 1.0 or prompt["in_segments"]:
        return []
    return [PromptExpansion(dict(prompt), NULL_ROLE, "__null")]


def check_guidance(spec: Description, scale: float | None) -> float:
    """The scale of a request, or the model's own."""
    guidance = spec.guidance
    if guidance is None:
        if scale not in (None, 1.0):
            raise InvalidRequestError(
                f"guidance_scale must be 1: {spec.name} has no null prompt", param="guidance_scale"
            )
        return 1.0
    value = guidance.default_scale if scale is None else scale
    if not 0 <= value <= guidance.max_scale:  # false for NaN, too
        raise InvalidRequestError(
            f"guidance_scale must be a number from 0 to {guidance.max_scale:g}, got {scale}",
            param="guidance_scale",
        )
    return value


def find_voice(spec: Description, name: Any) -> VoiceSpec:
    """The voice of that id; the first one for None. Raises ``InvalidRequestError``."""
    if name is None:
        return spec.voices[0]
    for voice in spec.voices:
        if voice.id == name:
            return voice
    known = ", ".join(voice.id for voice in spec.voices)
    raise InvalidRequestError(
        f"unknown voice {str(name)[:64]!r}; the voices are: {known}", param="voice"
    )


def plain_text(text: str) -> str:
    """Without typographic marks and control characters; as long as it was."""
    return "".join(c if c in _KEPT or not _is_control(c) else " " for c in text.translate(_PLAIN))


def _is_control(char: str) -> bool:
    """Control, format, private, surrogate and unassigned characters."""
    return unicodedata.category(char).startswith("C")


def _check_speed(speed: Any) -> None:
    if isinstance(speed, bool) or speed not in (None, 1.0):
        raise InvalidRequestError(
            "speed must be 1: this model has no control of its speed", param="speed"
        )


def _check_language(spec: Description, voice: VoiceSpec, language: Any) -> None:
    known = [voice.language, *spec.languages]
    asked = str(language or "auto").strip().lower().replace("_", "-")
    allowed = {tag.lower() for tag in known} | {tag.partition("-")[0].lower() for tag in known}
    if asked not in allowed | {"auto"}:
        raise InvalidRequestError(
            f"unknown language {str(language)[:64]!r}; voice {voice.id} speaks "
            f"{', '.join(dict.fromkeys(known))}",
            param="language",
        )


def _fields(
    spec: Description, voice: VoiceSpec, instructions: Any
) -> tuple[dict[str, str], list[str]]:
    """The prompt's fields: the voice's, one of them perhaps replaced by the instructions."""
    if instructions in (None, "", "None"):
        return dict(voice.fields), []
    if not isinstance(instructions, str) or len(instructions) > MAX_INSTRUCTIONS_CHARS:
        raise InvalidRequestError(
            f"instructions must be a text of at most {MAX_INSTRUCTIONS_CHARS} characters",
            param="instructions",
        )
    if spec.instructions_field is None:
        return dict(voice.fields), ["instructions are not used by this model"]
    told = " ".join(plain_text(instructions).replace('"', "'").split())
    # Of invisible characters nothing is left, and a voice must be described.
    return voice.fields | ({spec.instructions_field: told} if told else {}), []
