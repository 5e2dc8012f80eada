"""The messages of ElevenLabs' WebSockets, and the query that opens one."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictStr

from server.elevenlabs_formats import SOCKET_FORMATS
from server.json_body import RequestModel
from server.schemas.elevenlabs import (
    MAX_SEED,
    TEXT_MUST_BE,
    TEXT_NORMALIZATION_MUST_BE,
    VOICE_SETTINGS_MUST_BE,
    ElevenLabsSpeech,
    VoiceSettings,
)
from server.schemas.speech import MAX_LANGUAGE_CHARS

# ElevenLabs' limits.
DEFAULT_INACTIVITY_S, MAX_INACTIVITY_S = 20, 180
MIN_CHUNK_CHARS, MAX_CHUNK_CHARS = 50, 500
DEFAULT_SCHEDULE = (120.0, 160.0, 250.0, 290.0)
_MAX_ID_CHARS = 256
_BOOLEAN = "true or false"
_NUL_FREE = r"^[^\x00]*$"


def _refuse_ssml(value: bool) -> bool:
    """Tags would be spoken of as text, and nobody would hear a pause."""
    if value:
        raise ValueError("no SSML")
    return value


ChunkChars = Annotated[float, Field(ge=MIN_CHUNK_CHARS, le=MAX_CHUNK_CHARS)]


class GenerationConfig(BaseModel):
    """After how many characters an unfinished sentence is begun, chunk by chunk."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    chunk_length_schedule: Annotated[
        list[ChunkChars] | None, Field(min_length=1, max_length=50)
    ] = None


class ElevenLabsMessage(RequestModel):
    """Whatever a client may send. Which fields are set says what it wants."""

    must_be: ClassVar[dict[str, str]] = {
        "text": TEXT_MUST_BE,
        "context_id": f"a string of at most {_MAX_ID_CHARS} characters",
        "flush": _BOOLEAN,
        "try_trigger_generation": _BOOLEAN,
        "close_context": _BOOLEAN,
        "close_socket": _BOOLEAN,
        "voice_settings": VOICE_SETTINGS_MUST_BE,
        "generation_config": "an object whose chunk_length_schedule, if it has one, is a list of "
        f"numbers from {MIN_CHUNK_CHARS} to {MAX_CHUNK_CHARS}",
        "pronunciation_dictionary_locators": ElevenLabsSpeech.must_be[
            "pronunciation_dictionary_locators"
        ],
        "xi_api_key": "a string",
        "authorization": "a string",
    }

    text: Annotated[StrictStr | None, Field(pattern=_NUL_FREE)] = None
    context_id: Annotated[StrictStr | None, Field(max_length=_MAX_ID_CHARS)] = None
    flush: bool | None = None
    try_trigger_generation: bool | None = None
    close_context: bool | None = None
    close_socket: bool | None = None
    voice_settings: VoiceSettings | None = None
    generation_config: GenerationConfig | None = None
    pronunciation_dictionary_locators: Annotated[list[Any], Field(max_length=0)] | None = None
    xi_api_key: StrictStr | None = None
    authorization: StrictStr | None = None

    @property
    def key(self) -> str | None:
        """The API key that the message carries."""
        return self.xi_api_key or (self.authorization or "").removeprefix("Bearer ") or None


# Clients write these in either way.
ALTERNATIVE_NAMES = {"contextId": "context_id", "xi-api-key": "xi_api_key"}


class ElevenLabsSocketQuery(RequestModel):
    """What the address says. Parameters that it does not know are ignored."""

    must_be: ClassVar[dict[str, str]] = {
        "model_id": ElevenLabsSpeech.must_be["model_id"],
        "language_code": ElevenLabsSpeech.must_be["language_code"],
        "output_format": "one of " + ", ".join(SOCKET_FORMATS),
        "inactivity_timeout": f"an integer from 1 to {MAX_INACTIVITY_S}",
        "seed": f"an integer from 0 to {MAX_SEED}",
        "apply_text_normalization": TEXT_NORMALIZATION_MUST_BE,
        "optimize_streaming_latency": "an integer from 0 to 4",
        "sync_alignment": _BOOLEAN,
        "auto_mode": _BOOLEAN,
        "enable_logging": _BOOLEAN,
        "enable_ssml_parsing": "false: this server reads no SSML",
        "apply_language_text_normalization": _BOOLEAN,
    }

    model_id: str | None = None
    language_code: Annotated[str | None, Field(max_length=MAX_LANGUAGE_CHARS)] = None
    output_format: Literal[tuple(SOCKET_FORMATS)] | None = None  # type: ignore[valid-type]
    inactivity_timeout: Annotated[int, Field(ge=1, le=MAX_INACTIVITY_S)] = DEFAULT_INACTIVITY_S
    seed: Annotated[int | None, Field(ge=0, le=MAX_SEED)] = None
    apply_text_normalization: Literal["auto", "on"] | None = None
    optimize_streaming_latency: Annotated[int | None, Field(ge=0, le=4)] = None
    sync_alignment: bool = False
    auto_mode: bool = False
    enable_logging: bool = True
    enable_ssml_parsing: Annotated[bool, AfterValidator(_refuse_ssml)] = False
    apply_language_text_normalization: bool = False
