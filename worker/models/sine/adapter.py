"""Caller's side of the tone pipeline: its voices, and the checks on its prompts."""

from __future__ import annotations

from engine.errors import InvalidRequestError
from engine.messages import Prompt
from engine.pipeline import Voice


def list_voices() -> list[Voice]:
    return [
        Voice(
            "low", "Low", "en-US", "neutral", "Tones from 220 Hz", ("alloy",), {"base_hz": 220.0}
        ),
        Voice(
            "high", "High", "en-US", "neutral", "Tones from 440 Hz", ("nova",), {"base_hz": 440.0}
        ),
    ]


def transform_prompt(prompt: Prompt) -> Prompt:
    """Check ``text`` and ``voice``, and put the voice's base frequency (Hz) into the prompt."""
    text = prompt.get("text")
    if not isinstance(text, str) or not (text.strip() or prompt.get("resumable")):
        raise InvalidRequestError("text must hold something to speak", param="input")
    voices = {voice.id: voice for voice in list_voices()}
    voice = voices.get(prompt.get("voice") or "low")
    if voice is None:
        known = ", ".join(voices)
        raise InvalidRequestError(f"unknown voice; the voices are: {known}", param="voice")
    return prompt | voice.options
