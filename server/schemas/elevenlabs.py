"""The requests of ElevenLabs' API: texts to speak, and lists of voices.

Fields that are accepted without an effect say so.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr

from server.elevenlabs_formats import FORMATS
from server.json_body import RequestModel
from server.schemas.speech import MAX_LANGUAGE_CHARS, MAX_SPEED, MIN_SPEED

# ElevenLabs' own limit for a seed.
MAX_SEED = 2**32 - 1
_NOT_HERE = "absent: this server has none"
_NO_EFFECT = "Accepted, without an effect."
_MAX_PAGE_SIZE = 100
Speed = Annotated[float | None, Field(ge=MIN_SPEED, le=MAX_SPEED, allow_inf_nan=False)]
Degree = Annotated[float | None, Field(allow_inf_nan=False, description=_NO_EFFECT)]


class VoiceSettings(BaseModel):
    """How to speak. Only ``speed`` acts: these voices have nothing that the others could move."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    speed: Speed = None
    stability: Degree = None
    similarity_boost: Degree = None
    style: Degree = None
    use_speaker_boost: Annotated[bool | None, Field(description=_NO_EFFECT)] = None


VOICE_SETTINGS_MUST_BE = (
    f"an object whose speed, if it has one, is from {MIN_SPEED} to {MAX_SPEED}, and whose "
    "stability, similarity_boost and style are numbers"
)
TEXT_MUST_BE = "a string without NUL"
TEXT_NORMALIZATION_MUST_BE = "one of auto, on: numbers and dates are always spelled out"


class ElevenLabsSpeech(RequestModel):
    """What to say. The voice is in the path, the format in the query."""

    must_be: ClassVar[dict[str, str]] = {
        "text": f"{TEXT_MUST_BE}, with at least one character that can be spoken",
        "model_id": "a model of ElevenLabs, or a name from /v1/models",
        "language_code": "a language tag such as 'en'",
        "voice_settings": VOICE_SETTINGS_MUST_BE,
        "seed": f"an integer from 0 to {MAX_SEED}",
        "apply_text_normalization": TEXT_NORMALIZATION_MUST_BE,
        "pronunciation_dictionary_locators": _NOT_HERE,
        "audio_effects": _NOT_HERE,
    }

    text: Annotated[
        StrictStr,
        Field(min_length=1, pattern=r"^[^\x00]*$", description="The text to speak."),
    ]
    model_id: Annotated[
        StrictStr | None,
        Field(description="A model of ElevenLabs, or a name from /v1/models. One model speaks."),
    ] = None
    language_code: Annotated[
        StrictStr | None,
        Field(max_length=MAX_LANGUAGE_CHARS, description="The voice's if absent."),
    ] = None
    voice_settings: Annotated[
        VoiceSettings | None, Field(description="Its speed acts; the rest has no effect.")
    ] = None
    seed: Annotated[
        StrictInt | None,
        Field(ge=0, le=MAX_SEED, description="Equal requests with equal seeds, equal bytes."),
    ] = None
    apply_text_normalization: Annotated[
        Literal["auto", "on"] | None,
        Field(description="Numbers and dates are always spelled out; 'off' is refused."),
    ] = None
    pronunciation_dictionary_locators: Annotated[
        Annotated[list[Any], Field(max_length=0)] | None,
        Field(description="Refused: there are no dictionaries."),
    ] = None
    audio_effects: Annotated[None, Field(description="Refused: there are none.")] = None
    apply_language_text_normalization: Annotated[Any, Field(description=_NO_EFFECT)] = None
    previous_text: Annotated[Any, Field(description=_NO_EFFECT)] = None
    next_text: Annotated[Any, Field(description=_NO_EFFECT)] = None
    previous_request_ids: Annotated[Any, Field(description=_NO_EFFECT)] = None
    next_request_ids: Annotated[Any, Field(description=_NO_EFFECT)] = None
    use_pvc_as_ivc: Annotated[Any, Field(description=_NO_EFFECT)] = None


class ElevenLabsSpeechQuery(RequestModel):
    """The query of the routes that speak."""

    must_be: ClassVar[dict[str, str]] = {
        "output_format": "one of " + ", ".join(FORMATS),
        "enable_logging": "true or false",
        "optimize_streaming_latency": "an integer from 0 to 4",
    }

    output_format: Annotated[
        Literal[tuple(FORMATS)] | None,  # type: ignore[valid-type]
        Field(description="Codec, sample rate and kbit/s; mp3_44100_128 if absent."),
    ] = None
    enable_logging: Annotated[bool | None, Field(description=_NO_EFFECT)] = None
    optimize_streaming_latency: Annotated[int | None, Field(ge=0, le=4, description=_NO_EFFECT)] = (
        None
    )


class VoiceQuery(RequestModel):
    """The query of ``GET /v2/voices``. Filters that it does not know are ignored."""

    must_be: ClassVar[dict[str, str]] = {
        "page_size": f"an integer from 1 to {_MAX_PAGE_SIZE}",
        "next_page_token": "a token from the page before",
        "sort": "one of created_at_unix, name",
        "sort_direction": "one of asc, desc",
    }

    page_size: Annotated[int, Field(ge=1, le=_MAX_PAGE_SIZE)] = 10
    # Voices are counted, and none has more digits.
    next_page_token: Annotated[str | None, Field(pattern=r"^[0-9]{1,9}$")] = None
    search: str | None = None
    sort: Literal["created_at_unix", "name"] | None = None
    sort_direction: Literal["asc", "desc"] | None = None
    category: str | None = None
    gender: str | None = None
    language: str | None = None
