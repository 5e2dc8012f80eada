"""What a realtime session's orders mean to the engine, the encoders and the recogniser."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import soxr
from numpy.typing import NDArray

from server.audio.decoder import SAMPLE_RATE, Samples
from server.audio.formats import AudioFormat
from server.audio.g711 import G711Law
from server.sessions.realtime.effects import Hints, ResponseOrder
from server.sessions.realtime.input_audio import Clip
from server.sessions.realtime.response import Usage

_LAWS = {"audio/pcmu": G711Law.ULAW, "audio/pcma": G711Law.ALAW}
_G711_RATE = 8000
# A tenth of a second: the least that models hear.
_MIN_HEARD_SAMPLES = SAMPLE_RATE // 10


@dataclass(frozen=True, slots=True)
class AnswerCoding:
    """How an answer's sound is coded; see ``server.encoding.Coding``."""

    source_rate: int
    sample_rate: int
    law: G711Law | None
    fmt: AudioFormat = AudioFormat.PCM
    bit_rate: int | None = None


def coding_of(order: ResponseOrder, source_rate: int) -> AnswerCoding:
    """The coding that a response asks for."""
    law = _LAWS.get(order.audio_format)
    return AnswerCoding(source_rate, source_rate if law is None else _G711_RATE, law)


def prompt_of(order: ResponseOrder) -> dict[str, Any]:
    """The prompt of a cascade, or of an omni model but for its ``clips``."""
    prompt: dict[str, Any] = {"messages": order.messages}
    if order.tools:
        tooling: dict[str, Any] = {"tools": order.tools, "tool_choice": order.tool_choice}
        if order.parallel_tool_calls is not None:
            tooling["parallel_tool_calls"] = order.parallel_tool_calls
        prompt["tooling"] = tooling
    if order.max_tokens is not None:
        prompt["sampling"] = {"max_tokens": order.max_tokens}
    if order.truncation is not None:
        prompt["truncation"] = asdict(order.truncation)
    if order.voice is not None:
        prompt |= {"voice": order.voice, "speed": order.speed}
    return prompt


def hints_of(hints: Hints) -> dict[str, Any]:
    """Their keys in a recogniser's prompt. None: what was known is known no more."""
    prompt = {
        "language": hints.language,
        "languages": hints.languages,
        "context": hints.prompt,
        "keywords": hints.keywords,
    }
    return {key: value or None for key, value in prompt.items()}


def usage_of(usage: dict[str, int]) -> Usage:
    """A thinker's usage."""
    return Usage(
        input_text_tokens=usage.get("prompt_tokens", 0),
        cached_tokens=usage.get("cached_tokens", 0),
        output_text_tokens=usage.get("completion_tokens", 0),
        num_left_out=usage.get("left_out_messages", 0),
    )


class HeldRecording:
    """A recording in memory, as the transcriber reads it: float32 at 16 kHz."""

    def __init__(self, audio: Samples) -> None:
        self._audio = audio

    async def read(self, num_samples: int) -> Samples:
        taken, self._audio = self._audio[:num_samples], self._audio[num_samples:]
        return taken


def read_sounds(clips: Iterable[Clip]) -> list[NDArray[np.int16]]:
    """Turns as a model hears them that hears for itself: int16 [samples] at 16 kHz.

    Takes a millisecond for each second of them. One that is too short to be heard gets silence
    behind it.
    """
    return [_read_sound(clip) for clip in clips]


def _read_sound(clip: Clip) -> NDArray[np.int16]:
    samples = np.frombuffer(clip.pcm, "<i2")
    resampled: NDArray[np.int16] = soxr.resample(samples, clip.rate, SAMPLE_RATE)
    missing = max(_MIN_HEARD_SAMPLES - len(resampled), 0)
    return np.pad(resampled, (0, missing)) if missing else resampled


def read_clip(clip: Clip) -> HeldRecording:
    """A turn as a recording; takes a millisecond for each second of it."""
    samples = np.frombuffer(clip.pcm, "<i2").astype(np.float32) / 32768.0
    return HeldRecording(soxr.resample(samples, clip.rate, SAMPLE_RATE))
