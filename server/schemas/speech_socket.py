"""The messages of ``WS /v1/audio/speech/stream``, with the field names of vLLM-Omni."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, StrictBool, StrictFloat, StrictInt, StrictStr

from server.audio.formats import MAX_SAMPLE_RATE, MIN_SAMPLE_RATE, AudioFormat
from server.json_body import RequestModel
from server.schemas.speech import (
    MAX_GUIDANCE_SCALE,
    MAX_INSTRUCTIONS_CHARS,
    MAX_LANGUAGE_CHARS,
    MAX_SEED,
    MAX_SPEED,
    MIN_SPEED,
    SpeechRequest,
    Temperature,
    TopK,
    TopP,
    VoiceRef,
)

_SHARED = SpeechRequest.must_be
# A day of speech: a number beyond it is no playing time.
_MAX_PLAYED_MS = 86_400_000
_MAX_INDEX = 2**31 - 1

Voice = StrictStr | VoiceRef | None
Speed = Annotated[StrictFloat | None, Field(ge=MIN_SPEED, le=MAX_SPEED, allow_inf_nan=False)]


class SessionConfig(RequestModel):
    """``session.config``: the first message; later ones replace it between two utterances."""

    must_be: ClassVar[dict[str, str]] = {
        "model": _SHARED["model"],
        "voice": _SHARED["voice"],
        "speaker": _SHARED["voice"],
        "instructions": _SHARED["instructions"],
        "response_format": _SHARED["response_format"],
        "speed": _SHARED["speed"],
        "seed": _SHARED["seed"],
        "temperature": _SHARED["temperature"],
        "top_p": _SHARED["top_p"],
        "top_k": _SHARED["top_k"],
        "guidance_scale": _SHARED["guidance_scale"],
        "sample_rate": _SHARED["sample_rate"],
        "language": _SHARED["language"],
        "stream_audio": "true or false",
        "word_timestamps": "true or false",
        "split_granularity": "one of none, sentence, clause",
        "audio_transport": "one of binary, json",
        "ref_audio": "absent: the voices of this server are those of /v1/audio/voices",
        "speaker_embedding": "absent: the voices of this server are those of /v1/audio/voices",
    }

    model: StrictStr | None = None
    voice: Voice = None
    speaker: Voice = None
    instructions: Annotated[StrictStr | None, Field(max_length=MAX_INSTRUCTIONS_CHARS)] = None
    response_format: AudioFormat | None = None
    speed: Speed = None
    seed: Annotated[StrictInt | None, Field(ge=0, le=MAX_SEED)] = None
    temperature: Temperature = None
    top_p: TopP = None
    top_k: TopK = None
    guidance_scale: Annotated[
        StrictFloat | None, Field(ge=1, le=MAX_GUIDANCE_SCALE, allow_inf_nan=False)
    ] = None
    sample_rate: Annotated[StrictInt | None, Field(ge=MIN_SAMPLE_RATE, le=MAX_SAMPLE_RATE)] = None
    language: Annotated[StrictStr | None, Field(max_length=MAX_LANGUAGE_CHARS)] = None
    stream_audio: StrictBool | None = None
    word_timestamps: StrictBool | None = None
    split_granularity: Literal["none", "sentence", "clause"] | None = None
    audio_transport: Literal["binary", "json"] | None = None
    ref_audio: None = None
    speaker_embedding: None = None


class SessionUpdate(RequestModel):
    """``session.update``: for the text that comes after it."""

    must_be: ClassVar[dict[str, str]] = {
        "voice": _SHARED["voice"],
        "speed": _SHARED["speed"],
    }

    voice: Voice = None
    speed: Speed = None


class InputText(RequestModel):
    """``input.text``: the next piece of an utterance, of any length."""

    must_be: ClassVar[dict[str, str]] = {"text": "a string without NUL"}

    text: Annotated[StrictStr, Field(pattern=r"^[^\x00]*$")]


class InputCancel(RequestModel):
    """``input.cancel``: stop speaking.

    ``played_ms`` is how much of the utterance's audio the listener has heard. It is about
    ``utterance_index``, or without one about the utterance that is being spoken or was last.
    """

    must_be: ClassVar[dict[str, str]] = {
        "played_ms": f"a number from 0 to {_MAX_PLAYED_MS}",
        "utterance_index": "the index of an utterance that is not over, or of the last one",
    }

    played_ms: Annotated[
        StrictFloat | None, Field(ge=0, le=_MAX_PLAYED_MS, allow_inf_nan=False)
    ] = None
    utterance_index: Annotated[StrictInt | None, Field(ge=0, le=_MAX_INDEX)] = None


# Those that are not described here say everything with their type.
MESSAGE_TYPES = (
    "session.config",
    "session.update",
    "session.close",
    "input.text",
    "input.done",
    "input.flush",
    "input.cancel",
)
