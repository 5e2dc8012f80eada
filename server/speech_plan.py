"""From a speech request to what the engine and the encoder are told. Everything is checked here."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from functools import lru_cache
from typing import Any, Literal

import msgspec

from engine.errors import InvalidRequestError
from engine.messages import SamplingParams
from server.audio.formats import AudioFormat, UnsupportedSampleRateError, resolve_sample_rate
from server.audio.g711 import G711Law
from server.catalog import ModelCatalog
from server.engine_port import EnginePort
from server.schemas.speech import SpeechRequest, VoiceRef
from server.schemas.speech_socket import SessionConfig, SessionUpdate

# Formats whose header says how long the file is.
SIZED_FORMATS = frozenset({AudioFormat.WAV, AudioFormat.FLAC})
# Usage is counted in units that need no tokenizer: OpenAI's rule of thumb of four characters a
# token for text, and its 50 ms a token for audio that a model speaks.
_CHARS_PER_TOKEN = 4
_MS_PER_TOKEN = 50
_LLM_FIELDS = ("temperature", "top_p", "top_k", "guidance_scale")


class Delivery(Enum):
    """How the audio leaves."""

    STREAM = auto()  # as it is made
    EVENTS = auto()  # as it is made, in server-sent events
    COMPLETE = auto()  # one file with a Content-Length
    BUFFER_IF_SHORT = auto()  # COMPLETE if it is short, else STREAM
    WITH_WORDS = auto()  # a JSON object with the complete file and its words


@dataclass(frozen=True, slots=True)
class SpeechPlan:
    """One request, resolved. ``sampling`` is None for the pipeline's own defaults."""

    prompt: dict[str, Any]
    sampling: list[SamplingParams] | None
    fmt: AudioFormat
    source_rate: int
    sample_rate: int
    delivery: Delivery
    has_words: bool
    num_input_tokens: int
    bit_rate: int | None = None
    law: G711Law | None = None

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
        has_words=request.timestamp_granularities is not None,
        num_input_tokens=-(-len(request.input) // _CHARS_PER_TOKEN),
    )


@dataclass(frozen=True, slots=True)
class SessionPlan:
    """A session's configuration, resolved. ``prompt`` has no text yet.

    ``stream_audio``: a unit's audio is sent as it is made, else as one complete file. ``as_json``:
    audio is sent as events, else as binary messages.
    """

    prompt: dict[str, Any]
    sampling: list[SamplingParams] | None
    fmt: AudioFormat
    source_rate: int
    sample_rate: int
    stream_audio: bool
    as_json: bool
    has_words: bool
    granularity: Literal["none", "sentence", "clause"]
    bit_rate: int | None = None
    law: G711Law | None = None


def plan_session(config: SessionConfig, engine: EnginePort, catalog: ModelCatalog) -> SessionPlan:
    """The plan for a session. Raises ``InvalidRequestError`` or ``NotFoundError``."""
    if config.model is not None:
        catalog.check(config.model)
    fmt = config.response_format or AudioFormat.WAV
    source_rate = engine.pipeline.sample_rate
    has_words = bool(config.word_timestamps)
    return SessionPlan(
        prompt={
            "text": "",
            "voice": _voice_id(config.speaker if config.voice is None else config.voice, engine),
            "speed": 1.0 if config.speed is None else config.speed,
            "language": _unless(config.language, "auto"),
            "instructions": _unless(config.instructions, "none"),
        },
        sampling=_sampling(config, engine),
        fmt=fmt,
        source_rate=source_rate,
        sample_rate=_sample_rate(fmt, source_rate, config.sample_rate),
        stream_audio=bool(config.stream_audio),
        as_json=config.audio_transport == "json" or (config.audio_transport is None and has_words),
        has_words=has_words,
        granularity=config.split_granularity or "none",
    )


def plan_changes(update: SessionUpdate, engine: EnginePort) -> dict[str, Any]:
    """The prompt's keys that an update changes. Raises ``InvalidRequestError``."""
    changes: dict[str, Any] = {}
    if update.voice is not None:
        changes["voice"] = _voice_id(update.voice, engine)
    if update.speed is not None:
        changes["speed"] = update.speed
    return changes


def choose_delivery(request: SpeechRequest, fmt: AudioFormat) -> Delivery:
    """An explicit ``stream_format`` decides, then ``stream``, then what the format needs.

    Raises ``InvalidRequestError`` if words are asked for where there is no room for them.
    """
    if request.timestamp_granularities is not None:
        return _delivery_with_words(request)
    if request.stream_format is not None:
        return Delivery.EVENTS if request.stream_format == "sse" else Delivery.STREAM
    if request.stream is not None:
        return Delivery.EVENTS if request.stream else Delivery.COMPLETE
    return Delivery.BUFFER_IF_SHORT if fmt in SIZED_FORMATS else Delivery.STREAM


def _delivery_with_words(request: SpeechRequest) -> Delivery:
    if request.stream_format == "audio":
        raise InvalidRequestError(
            "timestamp_granularities needs stream_format 'sse', or no stream_format for an answer "
            "in JSON: a file has no room for words",
            param="timestamp_granularities",
        )
    is_streamed = request.stream_format == "sse" or bool(request.stream)
    return Delivery.EVENTS if is_streamed else Delivery.WITH_WORDS


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


def _sampling(
    asked: SpeechRequest | SessionConfig, engine: EnginePort
) -> list[SamplingParams] | None:
    """Sampling by stage, or None for the pipeline's own.

    What only a language model can act on goes to those; to the first stage where there are none,
    for which the engine refuses it by name.
    """
    fields = {name: getattr(asked, name) for name in _LLM_FIELDS}
    given = {name: value for name, value in fields.items() if value is not None}
    if asked.seed is None and not given:
        return None
    seed = {} if asked.seed is None else {"seed": asked.seed}
    stages = engine.pipeline.stages
    takers = [stage for stage in stages if stage.stage_type == "llm"] or stages[:1]
    return [
        msgspec.structs.replace(
            stage.default_sampling, **seed, **(given if stage in takers else {})
        )
        for stage in stages
    ]


@lru_cache(
    maxsize=256
)  # few formats and rates are in use, and the search costs up to a millisecond
def _sample_rate(fmt: AudioFormat, source_rate: int, asked: int | None) -> int:
    try:
        return resolve_sample_rate(fmt, source_rate, asked)
    except UnsupportedSampleRateError as error:
        raise InvalidRequestError(str(error), param="sample_rate") from error
