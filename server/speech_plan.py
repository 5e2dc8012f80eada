"""From a speech request to what the engine and the encoder are told. Everything is checked here."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from functools import lru_cache
from typing import Any

import msgspec

from engine.errors import InvalidRequestError
from engine.messages import SamplingParams
from server.audio.formats import AudioFormat, UnsupportedSampleRateError, resolve_sample_rate
from server.catalog import ModelCatalog
from server.engine_port import EnginePort
from server.schemas.speech import SpeechRequest, VoiceRef

# Formats whose header says how long the file is.
SIZED_FORMATS = frozenset({AudioFormat.WAV, AudioFormat.FLAC})
# Usage is counted in units that need no tokenizer: OpenAI's rule of thumb of four characters a
# token for text, and its 50 ms a token for audio that a model speaks.
_CHARS_PER_TOKEN = 4
_MS_PER_TOKEN = 50


class Delivery(Enum):
    """How the audio leaves."""

    STREAM = auto()  # as it is made
    EVENTS = auto()  # as it is made, in server-sent events
    COMPLETE = auto()  # one file with a Content-Length
    BUFFER_IF_SHORT = auto()  # COMPLETE if it is short, else STREAM


@dataclass(frozen=True, slots=True)
class SpeechPlan:
    """One request, resolved. ``sampling`` is None for the pipeline's own defaults."""

    prompt: dict[str, Any]
    sampling: list[SamplingParams] | None
    fmt: AudioFormat
    source_rate: int
    sample_rate: int
    delivery: Delivery
    num_input_tokens: int

    def num_output_tokens(self, audio_s: float) -> int:
        return -(-round(audio_s * 1000) // _MS_PER_TOKEN)


def plan_speech(
    request: SpeechRequest,
    engine: EnginePort,
    catalog: ModelCatalog,
    max_input_chars: int | None = None,
) -> SpeechPlan:
    """The plan for a request. Raises ``InvalidRequestError`` or ``NotFoundError``."""
    if request.model is not None:
        catalog.check(request.model)
    fmt = request.response_format or AudioFormat.MP3
    source_rate = engine.pipeline.sample_rate
    return SpeechPlan(
        prompt=_prompt(request, engine, max_input_chars),
        sampling=_sampling(request, engine),
        fmt=fmt,
        source_rate=source_rate,
        sample_rate=_sample_rate(fmt, source_rate, request.sample_rate),
        delivery=choose_delivery(request, fmt),
        num_input_tokens=-(-len(request.input) // _CHARS_PER_TOKEN),
    )


def choose_delivery(request: SpeechRequest, fmt: AudioFormat) -> Delivery:
    """An explicit ``stream_format`` decides, then ``stream``, then what the format needs."""
    if request.stream_format is not None:
        return Delivery.EVENTS if request.stream_format == "sse" else Delivery.STREAM
    if request.stream is not None:
        return Delivery.EVENTS if request.stream else Delivery.COMPLETE
    return Delivery.BUFFER_IF_SHORT if fmt in SIZED_FORMATS else Delivery.STREAM


def _prompt(
    request: SpeechRequest, engine: EnginePort, max_input_chars: int | None
) -> dict[str, Any]:
    text = request.input
    if not text.strip():
        raise InvalidRequestError("input holds nothing but white space", param="input")
    if max_input_chars is not None and len(text) > max_input_chars:
        raise InvalidRequestError(
            f"input holds {len(text)} characters; this server takes at most {max_input_chars}",
            param="input",
            code="string_above_max_length",
        )
    return {
        "text": text,
        "voice": _voice_id(request.voice, engine),
        "speed": 1.0 if request.speed is None else request.speed,
        "language": _unless(request.language, "auto"),
        "instructions": _unless(request.instructions, "none"),
    }


def _voice_id(voice: str | VoiceRef | None, engine: EnginePort) -> str | None:
    if voice is None:
        return engine.voices[0].id if engine.voices else None
    return engine.find_voice(voice.id if isinstance(voice, VoiceRef) else voice).id


def _unless(value: str | None, nothing: str) -> str | None:
    """Clients that have no value send null, an empty string, or a word for it."""
    if value is None or value.strip().lower() in ("", nothing):
        return None
    return value


def _sampling(request: SpeechRequest, engine: EnginePort) -> list[SamplingParams] | None:
    if request.seed is None:
        return None
    return [
        msgspec.structs.replace(stage.default_sampling, seed=request.seed)
        for stage in engine.pipeline.stages
    ]


@lru_cache(
    maxsize=256
)  # few formats and rates are in use, and the search costs up to a millisecond
def _sample_rate(fmt: AudioFormat, source_rate: int, asked: int | None) -> int:
    try:
        return resolve_sample_rate(fmt, source_rate, asked)
    except UnsupportedSampleRateError as error:
        raise InvalidRequestError(str(error), param="sample_rate") from error
