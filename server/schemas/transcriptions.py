"""The forms of ``/v1/audio/transcriptions`` and ``/translations``."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from server.json_body import RequestModel

# Fields that hold several values.
LIST_FIELDS = frozenset(
    {
        "timestamp_granularities",
        "include",
        "languages",
        "keywords",
        "known_speaker_names",
        "known_speaker_references",
    }
)
_FORMATS = "json, text, srt, verbose_json or vtt"


class ServerVad(BaseModel):
    """How pauses are found that part the audio."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["server_vad"]
    threshold: float = Field(0.5, ge=0, le=1)
    prefix_padding_ms: int = Field(300, ge=0, le=10_000)
    silence_duration_ms: int = Field(200, ge=0, le=10_000)


class TranslationForm(RequestModel):
    """Speech in any language that the model knows, to English text."""

    must_be: ClassVar[dict[str, str]] = {
        "model": "a text",
        "prompt": "a text",
        "response_format": f"one of {_FORMATS}",
        "temperature": "a number from 0 to 1",
    }

    model: str | None = None
    prompt: str | None = None
    response_format: Literal["json", "text", "srt", "verbose_json", "vtt"] = "json"
    temperature: float = Field(0.0, ge=0, le=1)

    @field_validator("temperature", mode="before")
    @classmethod
    def _empty_is_default(cls, value: Any) -> Any:
        return 0.0 if value == "" else value


class TranscriptionForm(TranslationForm):
    """Speech to text."""

    must_be: ClassVar[dict[str, str]] = {
        **TranslationForm.must_be,
        "language": "an ISO 639-1 code",
        "languages": "a list of ISO 639-1 codes",
        "keywords": "a list of texts",
        "timestamp_granularities": "a list of word and segment",
        "include": "a list that holds logprobs, or nothing",
        "stream": "true or false",
        "chunking_strategy": (
            'auto, or an object with type "server_vad", threshold (0 to 1), prefix_padding_ms and '
            "silence_duration_ms (0 to 10000)"
        ),
    }

    language: str | None = None
    languages: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    timestamp_granularities: tuple[Literal["word", "segment"], ...] = ()
    include: tuple[Literal["logprobs"], ...] = ()
    stream: bool = False
    chunking_strategy: Literal["auto"] | ServerVad | None = None
    known_speaker_names: tuple[str, ...] = ()
    known_speaker_references: tuple[str, ...] = ()

    @field_validator("chunking_strategy", mode="before")
    @classmethod
    def _empty_is_none(cls, value: Any) -> Any:
        return None if value in ("", "null") else value

    @field_validator("stream", mode="before")
    @classmethod
    def _empty_is_false(cls, value: Any) -> Any:
        return False if value in ("", "null") else value
