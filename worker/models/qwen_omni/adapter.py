"""Caller's side of the Qwen omni models: voices, and the checks of prompts. Loads nothing.

Keys of a prompt:

- ``messages``: the chat API's; content is a text, or parts of the types ``text`` and ``audio``;
- ``clips``: what is heard at the ``audio`` parts, in their order: int16 [samples], mono, 16 kHz;
- ``sampling``, ``tooling``: the chat API's fields of those kinds, for the thinker;
- ``truncation``: what of the messages, and of their sounds, may be left out where not all of them
  fit, as ``worker.models.thinker.truncation`` has it; without it all are asked, or none;
- ``voice``: who speaks the answer; the first voice of the pipeline if none is named;
- ``speed``: 1; these models have no other.

A prompt with ``mode`` is for the stage in front that finds turns in live audio; its keys are those
of ``worker.models.whisper.adapter``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from engine.errors import ConfigError, InvalidRequestError
from engine.messages import Prompt
from engine.pipeline import Voice
from worker.models.thinker.truncation import read_truncation
from worker.models.whisper import adapter as whisper

SAMPLE_RATE = 16_000
# What one request may bring in all its clips; the models were trained on five minutes at most.
MAX_HEARD_S = 300
# Half a token of sound is 20 ms; less than this says nothing, and makes no token in some models.
MIN_CLIP_S = 0.1

_KEYS = frozenset({"messages", "clips", "sampling", "tooling", "truncation", "voice", "speed"})
# The engine adds these.
_ENGINE_KEYS = frozenset({"request_id", "resumable", "text"})
_GENDERS: dict[str, Literal["female", "male"]] = {
    "chelsie": "female",
    "ethan": "male",
    "aiden": "male",
}


def list_voices(
    voices: Sequence[str], aliases: Mapping[str, Sequence[str]] | None = None
) -> list[Voice]:
    """``voices`` are the speakers of the checkpoint, the default one first; ``aliases`` their other
    names. Raises ``ConfigError``.
    """
    others = aliases or {}
    unknown = sorted(others.keys() - set(voices))
    if unknown:
        raise ConfigError(
            f"options: aliases: {unknown[0]!r} must be one of the voices: {', '.join(voices)}"
        )
    return [
        Voice(
            id=name.lower(),
            name=name,
            # Each speaks every language that the model does.
            language="mul",
            gender=_GENDERS.get(name.lower(), "neutral"),
            description="A speaker of the model",
            aliases=tuple(others.get(name, ())),
        )
        for name in voices
    ]


def transform_prompt(
    prompt: Prompt, voices: Sequence[str], aliases: Mapping[str, Sequence[str]] | None = None
) -> Prompt:
    """What the first stage reads. Raises ``InvalidRequestError`` that names the key.

    A voice is asked for by its id: that of an alias is the voice list's to find.
    """
    if "mode" in prompt:
        return whisper.transform_prompt(prompt)
    unknown = sorted(prompt.keys() - _KEYS - _ENGINE_KEYS)
    if unknown:
        known = ", ".join(sorted(_KEYS))
        raise InvalidRequestError(
            f"unknown prompt key {unknown[0]!r}; known: {known}", param=unknown[0]
        )
    num_sounds = _check_messages(prompt.get("messages"))
    clips = _check_clips(prompt.get("clips", []), num_sounds)
    for key in ("sampling", "tooling"):
        if not isinstance(prompt.get(key, {}), dict):
            raise _refuse(key, "an object")
    read_truncation(prompt.get("truncation"))
    _check_voice(prompt.get("voice"), voices)
    if prompt.get("speed", 1) != 1:
        raise _refuse("speed", "1: this model speaks at no other")
    if prompt.get("resumable"):
        raise _refuse("resumable", "false: a conversation is asked in one piece")
    return {"clips": clips}


def _check_messages(messages: Any) -> int:
    """How many sounds there are in them."""
    is_list = isinstance(messages, list) and bool(messages)
    if not is_list or not all(isinstance(message, dict) for message in messages):
        raise _refuse("messages", "a list of at least one message")
    return sum(_check_content(message.get("content")) for message in messages)


def _check_content(content: Any) -> int:
    if content is None or isinstance(content, str):
        return 0
    if not isinstance(content, list):
        raise _refuse("messages", "messages whose content is a text or a list of parts")
    num_sounds = 0
    for part in content:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "audio":
            num_sounds += 1
        elif kind != "text" or not isinstance(part.get("text"), str):
            raise InvalidRequestError(
                f"messages: parts must be of the type text or audio, got {str(kind)[:40]!r}: this "
                "pipeline reads and hears, and sees nothing",
                param="messages",
            )
    return num_sounds


def _check_clips(clips: Any, num_sounds: int) -> list[Any]:
    if not isinstance(clips, list) or len(clips) != num_sounds:
        raise _refuse("clips", f"a list of {num_sounds}, one for each part of the type audio")
    for clip in clips:
        # Asked for by name, since nothing here may load numpy.
        if getattr(getattr(clip, "dtype", None), "str", "") != "<i2" or clip.ndim != 1:
            raise _refuse("clips", "a list of int16 [samples]")
        if len(clip) < MIN_CLIP_S * SAMPLE_RATE:
            raise InvalidRequestError(
                f"audio must be at least {MIN_CLIP_S:g} s long, got {len(clip) / SAMPLE_RATE:.3f}",
                param="messages",
            )
    heard_s = sum(map(len, clips)) / SAMPLE_RATE
    if heard_s > MAX_HEARD_S:
        raise InvalidRequestError(
            f"messages may hold at most {MAX_HEARD_S} s of audio, got {heard_s:.0f}",
            param="messages",
        )
    return clips


def _check_voice(voice: Any, voices: Sequence[str]) -> None:
    known = [name.lower() for name in voices]
    if voice is not None and (not isinstance(voice, str) or voice.lower() not in known):
        raise _refuse("voice", f"one of {', '.join(known)}, got {str(voice)[:64]!r}")


def _refuse(key: str, allowed: str) -> InvalidRequestError:
    return InvalidRequestError(f"{key} must be {allowed}", param=key)
